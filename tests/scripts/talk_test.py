#!/usr/bin/env python3
"""generate --interactive, typed at a terminal. Skipped (77) where no Python has tokenizers. Argument: the program."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
other_python.require("jinja2", "torch", "transformers")
from terminal import CTRL_C, CTRL_D, CTRL_Z, UP, Terminal, environment  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/chat"))
from make_chats import make_tokenizer  # noqa: E402

MODEL = ("--layers=1 --dim=64 --heads=2 --seq-len=96 --global-batch=8 --micro-batch=8 --steps=40 --lr=1e-2 --seed=1 --threads=1 "
         "--adam-threads=1 --quiet --device=cpu").split()
TURNS = "2 + 2?", "4 + 5?"


class TalkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = Path(folder.name)
        make_tokenizer(cls.path / "tok")
        chats = [{"messages": [{"role": "user", "content": f"{a} + {b}?"}, {"role": "assistant", "content": f"It is {a + b}."}]}
                 for a in range(10) for b in range(10)]
        (cls.path / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
        cls.run_program("train", "--data", "chats.jsonl", "--tokenizer", "tok", "--out", "run", *MODEL)

    @classmethod
    def run_program(cls, *words, typed=""):
        return subprocess.run([PROGRAM, *words], cwd=cls.path, input=typed, capture_output=True, text=True, check=True,
                              env=environment(ZERO_PYTHON=sys.executable)).stdout

    def words(self, *more):
        return ["generate", str(self.path / "run"), "--interactive", "--greedy", "--threads=1", "--quiet", *more]

    def begin(self, *more):
        terminal = Terminal([PROGRAM, *self.words(*more)], ZERO_PYTHON=sys.executable)
        self.addCleanup(terminal.abandon)
        self.prompted(terminal)
        return terminal

    def prompted(self, terminal):
        self.assertTrue(terminal.read_until(lambda text: text.endswith("> ")), terminal.text)
        return terminal.is_edited()

    def ask(self, terminal, keys):
        """The answer."""
        terminal.type(keys + "\r")
        self.assertTrue(terminal.read_until(lambda text: "\n> " in text), terminal.text)
        terminal.is_edited()
        return terminal.text.split("\n")[1].strip()

    def in_one(self, turns):
        """What the model says behind all of these messages, read at once."""
        messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(turns)]
        (self.path / "asked.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
        return json.loads(self.run_program("generate", "run", "--prompts", "asked.jsonl", "--greedy", "--threads=1"))["text"]

    def test_a_conversation_goes_on_and_begins_anew(self):
        for ranks in ([], ["--ranks=2"]):
            terminal = self.begin(*ranks)
            first = self.ask(terminal, TURNS[0])
            self.assertEqual(first, self.in_one(TURNS[:1]))
            second = self.ask(terminal, TURNS[1])
            self.assertEqual(second, self.in_one([TURNS[0], first, TURNS[1]]))
            terminal.type("/reset\r")
            self.prompted(terminal)
            self.assertEqual(self.ask(terminal, TURNS[1]), self.in_one(TURNS[1:]))
            terminal.type(CTRL_D)
            self.assertEqual((terminal.end(), terminal.is_as_before), (0, True), terminal.text)

    def test_a_long_conversation_fills_the_context_and_begins_anew(self):
        terminal, turns = self.begin("--ranks=2"), []
        while True:
            terminal.type("1 + 1?\r")
            self.prompted(terminal)
            if "leave" in terminal.text:
                break
            turns.append(terminal.text)
            self.assertLess(len(turns), 20)
        self.assertGreaterEqual(len(turns), 3)
        self.assertIn("in a context of 96; /reset begins anew", terminal.text)
        terminal.type("/reset\r")
        self.prompted(terminal)
        self.assertEqual(self.ask(terminal, TURNS[0]), self.in_one(TURNS[:1]))
        terminal.type(CTRL_D)
        self.assertEqual(terminal.end(), 0, terminal.text)

    def test_a_stop_text_is_not_said(self):
        typed = TURNS[0] + "\n" + TURNS[1] + "\n"
        first, second = self.run_program(*self.words("--stop", "."), typed=typed).splitlines()
        self.assertNotIn(".", first)
        self.assertEqual(second, self.in_one([TURNS[0], first, TURNS[1]]).split(".")[0])

    def test_lines_are_edited(self):
        terminal = self.begin()
        answer = self.ask(terminal, "2 + 3\x7f2?")
        self.assertEqual(answer, self.in_one(TURNS[:1]))
        terminal.type("/reset\r")
        if not self.prompted(terminal):
            self.skipTest("no libedit here")
        self.assertEqual(self.ask(terminal, UP + UP), answer, "the first line is called back")
        terminal.type("/exit\r")
        self.assertEqual(terminal.end(), 0, terminal.text)

    def test_ctrl_c_stops_an_answer_and_then_the_program(self):
        for ranks in ([], ["--ranks=2"]):
            terminal = self.begin("--ignore-eos", "--delay", "forward=100", *ranks)
            terminal.type(TURNS[0] + "\r")
            self.assertTrue(terminal.read_until(lambda text: len(text.partition("\n")[2]) > 2), terminal.text)
            terminal.type(CTRL_C)
            self.prompted(terminal)
            self.assertLess(len(terminal.text), 80, "it is no whole answer")
            terminal.type("/reset\r")
            self.prompted(terminal)
            terminal.type(TURNS[1] + "\r")
            self.assertTrue(terminal.read_until(lambda text: len(text.partition("\n")[2]) > 2), "asked again, it answers")
            terminal.type(CTRL_C)
            self.prompted(terminal)
            terminal.type("abc" + (CTRL_Z if ranks else "") + CTRL_C)
            self.assertEqual((terminal.end(), terminal.is_as_before), (130, True), terminal.text)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):  # the last is none of those that libedit knows
            terminal = self.begin()
            terminal.program.send_signal(number)
            self.assertEqual((terminal.end(), terminal.is_as_before), (130, True), terminal.text)

    def test_a_rank_or_a_starter_that_dies_leaves_the_terminal_as_it_was(self):
        terminal = self.begin("--ranks=2")
        first, second = sorted(map(int, Path(f"/proc/{terminal.program.pid}/task/{terminal.program.pid}/children").read_text().split()))
        os.kill(second, signal.SIGKILL)
        self.assertEqual((terminal.end(), terminal.is_as_before), (137, True), terminal.text)
        terminal = self.begin("--ranks=2")
        terminal.program.send_signal(signal.SIGTERM)
        self.assertEqual((terminal.end(), terminal.is_as_before), (130, True), terminal.text)

    def test_a_pipe_is_answered_line_by_line(self):
        typed = "\n/system be kind\n" + TURNS[0] + "\n"
        words = self.words("--ranks=2")
        said = self.run_program(*words, typed=typed)
        self.assertEqual(said, self.run_program(*self.words(), typed=typed))
        self.assertEqual(len(said.splitlines()), 1, said)

    def test_a_job_in_the_background_has_no_keys(self):
        terminal = Terminal(["bash", "-ic", "\"$0\" \"$@\" & wait %1; echo code $?", PROGRAM, *self.words("--ranks=2")],
                            ZERO_PYTHON=sys.executable)
        self.assertTrue(terminal.read_until(lambda text: "code 2" in text), terminal.text)
        self.assertIn("a job in the background has no keys to read", terminal.text)
        terminal.end()


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
