#!/usr/bin/env python3
"""What a person at a terminal sees: colours, completion, how much is told, text while it is drawn.

    tests/scripts/terminal_test.py build/bin/zero_launch
"""

import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from terminal import Terminal, environment

COLOUR = "\033["
SMALL = "--layers=1 --dim=16 --heads=2 --seq-len=16 --global-batch=4 --micro-batch=2 --threads=1 --adam-threads=1".split()


class TerminalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = Path(folder.name)
        (cls.path / "data.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
        cls.usual, cls.quiet, cls.verbose = cls.train("usual"), cls.train("quiet", "-q"), cls.train("verbose", "-v")

    @classmethod
    def train(cls, name, *flags):
        words = [PROGRAM, "train", "--data", cls.path / "data.txt", "--out", cls.path / name, "--steps=3", *SMALL, *flags]
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stdout

    def on_terminal(self, *words, **variables):
        terminal = Terminal([PROGRAM, *words], **variables)
        return terminal.end(), terminal.text

    def complete(self, *words):
        """What bash offers for the last word."""
        script = 'eval "$("$0" completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zero_launch; printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script, PROGRAM, "zero_launch", *words], capture_output=True, text=True,
                                cwd=self.path)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_an_error_has_a_colour_on_a_terminal(self):
        code, text = self.on_terminal("train", "--lr=x")
        self.assertEqual(code, 2)
        self.assertRegex(text, r"^\033\[1;31mzero:\033\[0m ")

    def test_no_colour_where_nobody_wants_one(self):
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn(COLOUR, self.on_terminal("train", "--lr=x", **variables)[1])
        self.assertIn(COLOUR, self.on_terminal("train", "--lr=x", NO_COLOR="")[1], "an empty one is none")
        piped = subprocess.run([PROGRAM, "train", "--lr=x"], capture_output=True, text=True, env=environment())
        self.assertNotIn(COLOUR, piped.stdout + piped.stderr)

    def test_a_run_on_a_terminal_leaves_text_and_nothing_of_a_status(self):
        code, text = self.on_terminal("train", "--data", str(self.path / "data.txt"), "--out", str(self.path / "shown"),
                                      "--steps=3", *SMALL)
        self.assertEqual(code, 0, text)
        shown = re.sub(r"\r\033\[K", "", text).replace("\r\n", "\n")
        self.assertNotIn(COLOUR, shown)
        self.assertIn("step 3/3", re.sub(" +", " ", shown))

    def test_lines_of_a_run_fit_the_terminal_and_are_whole_in_a_pipe(self):
        """The ranks write into a pipe: who started them tells how wide the terminal is."""
        terminal = Terminal([PROGRAM, "train", "--data", str(self.path / "data.txt"), "--out", str(self.path / "narrow"),
                             "--ranks=2", "--steps=3", *SMALL], columns=50)
        self.assertEqual(terminal.end(), 0, terminal.text)
        shown = re.sub(r"\r\033\[K", "", terminal.text).replace("\r\n", "\n").splitlines()
        self.assertEqual([line for line in shown if len(line) > 50 and "/" not in line], [], "a path has no blanks to break at")
        self.assertRegex("\n".join(shown), r"step +3/3 \| loss [0-9.]+ \| .*eta 0s")
        self.assertRegex(self.usual, r"step +3/3 \| loss [0-9.]+ \| norm [0-9.]+ \| lr .* ms \(.*tok/s \| peak .*eta 0s")

    def test_evaluations_and_saves_are_wrapped(self):
        terminal = Terminal([PROGRAM, "train", "--data", str(self.path / "data.txt"), "--out", str(self.path / "wrapped"),
                             "--steps=3", "--eval-every=3", *SMALL], columns=30)
        self.assertEqual(terminal.end(), 0, terminal.text)
        shown = re.sub(r"\r\033\[K", "", terminal.text).replace("\r\n", "\n").splitlines()
        for begin in ("eval ", "saved step "):
            lines = [line for line in shown if line.startswith(begin)]
            self.assertEqual([len(line) <= 30 for line in lines], [True], lines)

    def test_quiet_tells_less_and_verbose_more(self):
        self.assertIn("zero_launch train\n", self.usual)
        self.assertEqual(self.quiet, "")
        self.assertTrue((self.path / "quiet" / "metrics.jsonl").exists())
        self.assertGreater(len(self.verbose.splitlines()), len(self.usual.splitlines()))

    def test_bash_completes_verbs_flags_and_values(self):
        self.assertEqual(self.complete("tra"), ["train"])
        self.assertEqual(self.complete("train", "--grad-ac"), [])
        self.assertEqual(self.complete("train", "--sample-ev"), ["--sample-every"])
        self.assertEqual(self.complete("train", "--dtype", ""), ["fp32", "bf16", "fp16"])
        self.assertEqual(self.complete("train", "--preset", "llama"), [p for p in self.complete("train", "--preset", "")
                                                                      if p.startswith("llama")])
        self.assertEqual(self.complete("verify", "--js"), ["--json"])
        self.assertNotIn("--lr", self.complete("eval", "--l"))
        self.assertIn("--lr", self.complete("train", "--l"))

    def test_text_comes_while_it_is_drawn(self):
        """Twelve tokens take four seconds: what is read of them came before the end."""
        terminal = Terminal([PROGRAM, "generate", "--from", str(self.path / "usual"), "--prompt", "the ",
                             "--num-tokens=12", "--threads=1", "--ignore-eos", "--delay", "forward=300"])
        self.assertTrue(terminal.read_until(lambda text: "the " in text and len(text.split("the ", 1)[1]) > 2), terminal.text)
        self.assertIsNone(terminal.program.poll())
        terminal.program.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end(), 130, terminal.text[-200:])

    def test_text_is_the_same_in_a_pipe(self):
        words = ["generate", "--from", str(self.path / "usual"), "--prompt", "the ", "--num-tokens=9", "--threads=1", "--quiet"]
        code, text = self.on_terminal(*words)
        piped = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment())
        self.assertEqual((code, piped.returncode), (0, 0), piped.stderr)
        self.assertEqual(re.sub(r"\r\033\[K", "", text).replace("\r\n", "\n"), piped.stdout)


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
