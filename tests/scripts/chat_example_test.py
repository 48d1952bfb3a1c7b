#!/usr/bin/env python3
"""docs/fine-tuning.md's example: a model learns sums from conversations, answers, and stops. Skipped (77) where no Python has
tokenizers. Argument: the program."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
other_python.require("jinja2", "torch", "transformers")

ROOT, PROGRAM = Path(__file__).resolve().parents[2], Path(sys.argv[1]).resolve()


def main():
    with tempfile.TemporaryDirectory() as folder:
        def start(*words):
            done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "ZERO_PYTHON": sys.executable})
            assert done.returncode == 0, done.stderr
            return done.stdout

        start(sys.executable, ROOT / "examples/chat/make_chats.py", "chat")
        config = ROOT / "examples/configs/chat.toml"
        shown = start(PROGRAM, "train", "--config", config, "--dry-run")
        assert "<|user|>What is 2 + 9?<|end|><|assistant|>\u27e6It is 11.<|end|>\u27e7\n" in shown, shown
        start(PROGRAM, "train", "--config", config, "--quiet", "--eval-every", "1000")
        for a, b in ((3, 4), (9, 9), (0, 8)):
            said = start(PROGRAM, "generate", "runs/chat", "--chat", f"What is {a} + {b}?", "--temperature", "0")
            assert said == f"It is {a + b}.\n", said


if __name__ == "__main__":
    main()
