#!/usr/bin/env python3
"""scripts/tokens/child.py, and `generate` with a tokenizer, against tokenizers itself. Skipped (77) where no Python has them.

Argument: the program.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHILD = ROOT / "scripts/tokens/child.py"
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else None
TEXT = "the quick brown fox jumps, 東京都 naïve 🦊"
VOCABULARY = 300
sys.path.insert(0, str(ROOT / "scripts/tokens"))
import child  # noqa: E402


def make_tokenizer(path):
    """Byte-level, with a token before each text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(["the quick brown fox"] * 3, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|begin|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    tokenizer.save(str(path))
    return tokenizer


class TokenizerChildTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tokenizer.json"
        self.tokenizer = make_tokenizer(self.path)

    def tearDown(self):
        self.folder.cleanup()

    def ask(self, *questions):
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run([sys.executable, "-I", str(CHILD)], input=lines, capture_output=True, text=True, check=True)
        return list(map(json.loads, done.stdout.splitlines()))

    def test_ids_are_those_of_tokenizers_and_pieces_join_to_the_text(self):
        ids = self.tokenizer.encode(TEXT).ids
        opened, encoded, *pieces = self.ask({"open": str(self.path)}, {"encode": TEXT}, *({"next": token} for token in ids))
        self.assertEqual(opened["vocab"], self.tokenizer.get_vocab_size())
        self.assertEqual(encoded["ids"], ids)
        self.assertEqual("".join(piece["text"] for piece in pieces), "<|begin|>" + TEXT)
        self.assertIn("", [piece["text"] for piece in pieces])  # within a character

    def test_problems_are_answers(self):
        self.path.write_text("{}")
        broken, without, later = self.ask({"open": str(self.path)}, {"encode": "a"}, {"no such": 1})
        self.assertEqual(broken["where"], str(self.path))
        self.assertIn("problem", without)
        self.assertIn("problem", later)

    def test_a_token_beyond_the_vocabulary_is_a_number(self):
        self.assertEqual(self.ask({"open": str(self.path)}, {"next": 9999})[1]["text"], "<9999>")

    def test_nothing_else_is_opened(self):
        for event, arguments in (("socket.connect", ()), ("subprocess.Popen", ()), ("os.system", ()), ("open", ("/etc/passwd",))):
            self.assertRaises(RuntimeError, child.refuse, event, arguments)
        child.refuse("import", ())

    @unittest.skipUnless(PROGRAM, "no program")
    def test_generate_speaks_by_the_folder(self):
        run, folder = (Path(self.folder.name) / name for name in ("run", "folder"))
        environment = {**os.environ, "ZERO_PYTHON": sys.executable}
        start = lambda *words: subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=True, env=environment).stdout
        start("seed", "--out", run, "--model", "llama", "--layers", "1", "--dim", "16", "--heads", "2", "--vocab", VOCABULARY,
              "--seq-len", "64", "--seed", "1")
        start("export", run, "--to", folder)
        prompt = "the quick 東"
        ids = self.tokenizer.encode(prompt).ids
        words = ["--num-tokens", "8", "--temperature", "0"]
        numbers = start("generate", folder, "--prompt", " ".join(map(str, ids)), *words).split()
        (folder / "tokenizer.json").write_bytes(self.path.read_bytes())
        text = start("generate", folder, "--prompt", prompt, *words).decode()
        self.assertTrue(text.startswith("<|begin|>" + prompt), text)
        of_numbers = start("generate", folder, "--prompt", " ".join(map(str, ids)), *words).decode()
        self.assertEqual(of_numbers, text)
        self.assertEqual(list(map(int, numbers[:len(ids)])), ids)


if __name__ == "__main__":
    unittest.main()
