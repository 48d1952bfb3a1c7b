#!/usr/bin/env python3
"""Fine-tuning on conversations beside transformers and torch's AdamW, by tests/references/fine_tuning: losses and norms of
steps, and evaluations.

    fine_tuning_test.py PROGRAM [--all]    without it some models on some ranks
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
other_python.require("jinja2", "torch", "transformers")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, *WORDS = sys.argv[1:]
MODELS = ROOT / "tests/references"
DATA = MODELS / "fine_tuning"
REFERENCE = json.loads((DATA / "reference.json").read_text())
LOSS_LIMIT, NORM_LIMIT = 2e-5, 1e-4  # absolute, relative
# Model, ranks, whether rows hold several conversations.
SOME = [("llama", 2, True), ("qwen2", 1, True), ("gpt2", 1, False)]
ALL = [(model, ranks, packs) for model in ("llama", "qwen2", "gpt2") for ranks in (1, 2) for packs in (True, False)]
TEXT = ("--tokenizer", DATA, "--data", DATA / "chats.jsonl", "--separator", "none", "--threads", "1", "--device", "cpu")


class FineTuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cache = ("--token-cache", self.folder / "tokens")

    def start(self, verb, *words):
        done = subprocess.run([PROGRAM, verb, *map(str, (*words, *TEXT, *self.cache))], capture_output=True, text=True,
                              env={**os.environ, "ZERO_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, model, ranks, *words):
        """The records of its steps; twice as many conversations as rows where two are packed into each."""
        out = self.folder / f"run{len(list(self.folder.glob('run*')))}"
        self.start("train", "--init-from", MODELS / model, "--out", out, "--ranks", ranks, "--seq-len", REFERENCE["length"],
                   "--micro-batch", 1, "--shuffle=false", "--schedule", "constant", "--eval-fraction", 0, "--lr", "1e-3", *words)
        records = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        return [record for record in records if record["type"] == "step"]

    def assert_equal(self, steps, expected):
        self.assertEqual(len(steps), len(expected["losses"]))
        for step, loss, norm in zip(steps, expected["losses"], expected["gradient_norms"]):
            self.assertAlmostEqual(step["loss"], loss, delta=LOSS_LIMIT, msg=step)
            self.assertAlmostEqual(step["grad_norm"] / norm, 1, delta=NORM_LIMIT, msg=step)

    def test_losses_of_twenty_steps_are_those_of_torch(self):
        for model, ranks, packs in ALL if WORDS == ["--all"] else SOME:
            with self.subTest(model=model, ranks=ranks, packs=packs):
                batch = REFERENCE["batch"]
                given = ("--global-batch", batch // 2) if packs else ("--global-batch", batch, "--pack=false")
                self.assert_equal(self.train(model, ranks, "--steps", 20, *given), REFERENCE[model])

    def test_an_epoch_ends_with_a_short_batch(self):
        for packs, rows in (True, 4), (False, 8):
            steps = self.train("llama", 2, "--epochs", 1, "--global-batch", rows, *([] if packs else ["--pack=false"]))
            self.assert_equal(steps, REFERENCE["llama"]["short"])
            self.assertEqual(sum(step["tokens"] for step in steps), REFERENCE["trained"])

    def test_an_evaluation_tells_loss_and_accuracy(self):
        for model in ("llama", "gpt2"):
            expected = REFERENCE[model]["evaluation"]
            loss, accuracy = re.search(r"\| loss (\S+) .*\| accuracy (\S+) %", self.start("eval", MODELS / model)).groups()
            self.assertAlmostEqual(float(loss), expected["loss"], delta=LOSS_LIMIT)
            self.assertAlmostEqual(float(accuracy), 100 * expected["accuracy"], delta=0.006)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
