#!/usr/bin/env python3
"""What TensorBoard reads of a run. Skipped (77) where no Python has it.

    tests/scripts/tensorboard_test.py build/bin/zero_launch

For it, "python3 -m venv ~/.cache/zero/tensorboard-2.21.0", and there "bin/pip install tensorboard==2.21.0".
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import other_python

other_python.require("tensorboard", "tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

KEYS = {"train/loss": "loss", "train/grad_norm": "grad_norm", "train/lr": "lr", "train/step_seconds": "seconds",
        "train/tokens_per_second": "tokens_per_second"}


def rounded(number):
    return struct.unpack("f", struct.pack("f", number))[0]


class TensorboardTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)
        self.run_folder = self.path / "run"
        (self.path / "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)

    def train(self, *flags):
        settings = ("--layers=1 --dim=16 --heads=2 --seq-len=16 --global-batch=4 --micro-batch=2 --threads=1 --adam-threads=1 "
                    "--schedule=cosine --warmup-steps=3 --eval-every=2 --save-every=3 "
                    "--metrics=jsonl,tensorboard").split()
        result = subprocess.run([PROGRAM, "train", "--data", self.path / "data.txt", "--eval-data", self.path / "data.txt",
                                 "--out", self.run_folder, *settings, *flags], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def records(self, kind):
        lines = (self.run_folder / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["type"] == kind]

    def scalars(self):
        events = EventAccumulator(str(self.run_folder / "tensorboard"), size_guidance={"scalars": 0})
        events.Reload()
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}

    def assert_as_told(self):
        steps, found = self.records("step"), self.scalars()
        expected = {tag: [(step["step"], rounded(step[key])) for step in steps] for tag, key in KEYS.items()}
        expected["eval/loss"] = [(record["step"], rounded(record["loss"])) for record in self.records("eval")]
        self.assertEqual(found, expected)
        return [step["step"] for step in steps]

    def test_a_run_and_where_it_went_on(self):
        self.train("--steps=6")
        self.assertEqual(self.assert_as_told(), list(range(1, 7)))
        self.train("--steps=8", "--override", "steps")
        self.assertEqual(self.assert_as_told(), list(range(1, 9)))

    def test_steps_that_were_lost_are_told_once(self):
        self.train("--steps=8")
        for step in (8, 6):
            shutil.rmtree(self.run_folder / f"step_{step:012}")
        self.train("--steps=10", "--lr=1e-4", "--override", "lr", "steps")
        self.assertEqual(self.assert_as_told(), list(range(1, 11)))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
