#!/usr/bin/env python3
"""scripts/tokens/child.py, and `generate` with a tokenizer, against tokenizers itself. Skipped (77) where no Python has them.

Argument: the program.
"""
import array
import gzip
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
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHILD = ROOT / "scripts/tokens/child.py"
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else None
TEXT = "the quick brown fox jumps, 東京都 naïve 🦊"
VOCABULARY = 300
sys.path.insert(0, str(ROOT / "scripts"))
from tokens import child  # noqa: E402
from tokens.problem import MachineProblem  # noqa: E402
from tokens.workers import done_by, start_workers  # noqa: E402


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

    def ask(self, *questions, words=()):
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run([sys.executable, "-I", str(CHILD), *words], input=lines, capture_output=True, text=True, check=True)
        return list(map(json.loads, done.stdout.splitlines()))

    def test_ids_are_those_of_tokenizers_and_pieces_join_to_the_text(self):
        ids = self.tokenizer.encode(TEXT).ids
        opened, encoded, *pieces = self.ask({"open": str(self.path)}, {"encode": TEXT}, *({"next": [0, token]} for token in ids))
        self.assertEqual(opened["vocab"], self.tokenizer.get_vocab_size())
        self.assertEqual(encoded["ids"], ids)
        self.assertEqual("".join(piece["text"] for piece in pieces), "<|begin|>" + TEXT)
        self.assertIn("", [piece["text"] for piece in pieces])  # within a character

    def test_a_text_that_goes_on_has_nothing_behind_it(self):
        self.tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A <|begin|>", special_tokens=[("<|begin|>", 0)])
        self.tokenizer.save(str(self.path))
        closed, opened = self.ask({"open": str(self.path)}, {"encode": TEXT}, {"encode_open": TEXT})[1:]
        self.assertEqual(closed["ids"][-1], 0)
        self.assertEqual(opened["ids"], closed["ids"][:-1])

    def test_bytes_that_are_no_character_stand_in_the_text(self):
        begin = self.tokenizer.encode("\N{EURO SIGN}", add_special_tokens=False).ids[:-1]
        after = self.tokenizer.encode("a", add_special_tokens=False).ids
        asked = [{"next": [0, token]} for token in begin + after] + [{"next": [0, token]} for token in begin]
        *pieces, end, none = [answer["text"] for answer in
                              self.ask({"open": str(self.path)}, *asked, {"next": [0, None]}, {"next": [7, None]})[1:]]
        self.assertEqual("".join(pieces).replace("\ufffd", ""), "a")
        self.assertIn("\ufffd", "".join(pieces))
        self.assertEqual(end.strip("\ufffd"), "")
        self.assertTrue(end)
        self.assertEqual(none, "")

    def test_what_waits_at_an_end_is_not_told_again(self):
        begin, after = (self.tokenizer.encode(text, add_special_tokens=False).ids for text in ("a\ufffd", "b"))
        asked = [{"next": [0, token]} for token in (*begin, None, *after)]
        *_, end, more = [answer["text"] for answer in self.ask({"open": str(self.path)}, *asked)[1:]]
        self.assertEqual((end, more), ("\ufffd", "b"))

    def test_problems_are_answers(self):
        self.path.write_text("{}")
        broken, without, later = self.ask({"open": str(self.path)}, {"encode": "a"}, {"no such": 1})
        self.assertEqual(broken["where"], str(self.path))
        self.assertIn("problem", without)
        self.assertIn("problem", later)
        Tokenizer(models.WordLevel({"a": 0})).save(str(self.path))
        unknown = self.ask({"open": str(self.path)}, {"encode": "b"})[1]
        self.assertIn("cannot encode this text", unknown["problem"])
        self.assertEqual(unknown["code"], 2)

    def test_files_that_cannot_be_read_are_named(self):
        template, config = (self.path.with_name(name) for name in ("chat_template.jinja", "tokenizer_config.json"))

        def problem_of(path):
            problem = self.ask({"open": str(self.path)}, {"has_template": True})[1]
            self.assertEqual((problem["where"], problem["code"]), (str(path), 2))
            self.assertIn("--tokenizer DIR", problem["try"])
            return problem["problem"]

        template.mkdir()
        self.assertIn("directory", problem_of(template))
        template.rmdir()
        template.write_bytes(b"caf\xe9")
        self.assertIn("UTF-8", problem_of(template))
        template.unlink()
        config.symlink_to(config)
        self.assertIn("cannot be read", problem_of(config))
        self.path.unlink()
        self.assertIn("--tokenizer DIR", self.ask({"open": str(self.path)})[0]["try"])

    def test_a_token_beyond_the_vocabulary_is_a_number(self):
        self.assertEqual(self.ask({"open": str(self.path)}, {"next": [0, 9999]})[1]["text"], "<9999>")

    def test_nothing_else_is_opened(self):
        for event, arguments in (("socket.connect", ()), ("subprocess.Popen", ()), ("os.system", ()), ("ctypes.dlopen", ("a",)),
                                 ("open", ("/etc/passwd", "r", os.O_RDONLY)), ("open", ("/etc/passwd.part", "w", os.O_WRONLY)),
                                 ("open", (os.__file__, "w", os.O_WRONLY)), ("os.remove", ("/etc/passwd", -1))):
            self.assertRaises(RuntimeError, child.refuse, event, arguments)
        child.refuse("import", ())
        child.refuse("open", (os.__file__, "r", os.O_RDONLY))

    def tokenize(self, *texts, **options):
        """Its answers; each text is a file."""
        files = []
        for number, (suffix, text) in enumerate(texts):
            path = self.path.with_name(f"{number}{suffix}")
            path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
            files.append(str(path))
        self.out = self.path.with_name("out.tok")
        question = {"files": files, "out": str(self.out), "separator": [0], "text_key": "text", "below": 1 << 32, **options}
        return self.ask({"open": str(self.path)}, {"tokenize": question})[1:]

    def test_texts_become_a_token_file(self):
        lines = json.dumps({"text": "the fox"}) + "\n" + json.dumps({"text": "a b"}) + "\n"
        *news, done = self.tokenize((".txt", TEXT), (".jsonl", lines), (".json", "\n" + lines), (".jsonl.gz", lines))
        ids = [token for text in [TEXT, *["the fox", "a b"] * 3] for token in [*self.tokenizer.encode(text).ids, 0]]
        self.assertEqual(list(array.array("H", self.out.read_bytes()[1024:])), ids)
        self.assertEqual(done, {"tokens": len(ids), "documents": 7, "files": ["out.tok"]})
        self.assertEqual(sum(line["written"] for line in news), 2 * len(ids))
        self.assertEqual(sum(line["read"] for line in news), sum(p.stat().st_size for p in self.path.parent.glob("[0-9].*")))

    def test_texts_that_cannot_be_used_are_told_by_line(self):
        for texts, told, code in (([(".jsonl", "{}\n7\n")], "2 lines", 6), ([(".json", "[1]")], "a list", 6),
                                  ([(".txt.gz", "")], "no text", 6)):
            problem, = self.tokenize(*texts)
            self.assertIn(told, problem["problem"])
            self.assertEqual(problem["code"], code)
        self.path.with_name("0.jsonl.gz").write_bytes(gzip.compress(b"{}" * 999)[:-9])
        problem, = self.tokenize(files=[str(self.path.with_name("0.jsonl.gz"))])
        self.assertIn("no whole gzip", problem["problem"])
        problem, = self.tokenize((".txt", TEXT), below=100)
        self.assertIn("vocabulary is 100", problem["problem"])
        self.assertEqual(list(self.path.parent.glob("out*")), [])

    def exemplify(self, files, workers, name):
        """What is answered, and the bytes of what is made."""
        out = self.path.parent / name
        out.mkdir()
        wanted = {"files": list(map(str, files)), "out": str(out / "tokens.tok"), "separator": [0], "text_key": "text", "below": 999,
                  "train_on": "assistant", "end_of_turn": "", "date": "2026-11-26", "special": "error"}
        answers = self.ask({"open": str(self.path)}, {"exemplify": wanted}, words=[str(workers)])
        return answers[-1], {path.name: path.read_bytes() for path in out.iterdir()}

    def test_several_processes_make_what_one_makes(self):
        self.path.with_name("chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}<|begin|>{% endfor %}")
        chats, pairs, text = (self.path.with_name(name) for name in ("a.jsonl", "b.jsonl", "c.txt"))
        line = {"messages": [{"role": "user", "content": "fox " * 400}, {"role": "assistant", "content": "quick"}]}
        chats.write_text("".join(json.dumps({"messages": [*line["messages"], {"role": "assistant", "content": f"brown {n}"}]}) + "\n"
                                 for n in range(4000)))  # several batches
        pairs.write_text('{"prompt": "the", "completion": "fox"}\n\n' * 3)
        text.write_text("the quick brown fox")
        alone, files = self.exemplify([chats, pairs, text], 0, "alone")
        self.assertEqual(alone["documents"], 4004)
        self.assertEqual(alone["shapes"], ["messages", "prompt and completion"])
        shared, of_several = self.exemplify([chats, pairs, text], 3, "shared")
        self.assertEqual(shared, alone)
        self.assertEqual(of_several, files)
        pairs.write_text('{"prompt": "the", "completion": "fox"}\n{"prompt": 1, "completion": "fox"}\n')
        for workers in (0, 3):
            problem, files = self.exemplify([chats, pairs], workers, f"wrong{workers}")
            self.assertIn("b.jsonl, line 2", problem["where"])
            self.assertEqual((problem["code"], files), (6, {}))

    def test_half_of_a_surrogate_pair_is_spelled_in_answers(self):
        self.path.with_name("chat_template.jinja").write_text(
            "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}<|begin|>{% endfor %}")
        turns = [{"role": role, "content": "the fox"} for role in ("user", "assistant")]
        chats = self.path.with_name("a.jsonl")
        chats.write_text("".join(json.dumps({"messages": [*some, *turns]}) + "\n"
                                 for some in ([], [{"role": "\ud800", "content": "ahoy"}])))
        problem, _ = self.exemplify([chats], 0, "out")
        self.assertIn('does not know the role "\\ud800"', problem["problem"])
        self.assertIn("a.jsonl, line 2", problem["where"])
        self.assertEqual(problem["code"], 6)

    def test_a_process_that_dies_is_told(self):
        workers = start_workers(lambda: lambda batch: os.kill(os.getpid(), signal.SIGKILL) if batch == [2] else batch, 2)
        made = done_by(workers, (), [[0], [1], [2], [3]])
        self.assertEqual([next(made), next(made)], [[0], [1]])
        with self.assertRaisesRegex(MachineProblem, "has died"):
            next(made)
        for worker in workers:
            worker.inbox.close()
            worker.outbox.close()

    def start(self, *words):
        environment = {**os.environ, "ZERO_PYTHON": sys.executable}
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    @unittest.skipUnless(PROGRAM, "no program")
    def test_a_run_reads_texts_and_goes_on_by_its_own_tokenizer(self):
        folder = Path(self.folder.name)
        texts = folder / "texts.jsonl"
        texts.write_text("".join(json.dumps({"text": "the quick brown fox " * n}) + "\n" for n in range(1, 40)))
        run, tokens = folder / "run", folder / "tokens.tok"
        given = ["--model", "llama", "--layers", "1", "--dim", "16", "--heads", "2", "--seq-len", "32", "--global-batch", "8"]
        out = self.start("train", "--tokenizer", self.path, "--separator", "<|begin|>", "--data", texts, "--out", run, "--steps", "2",
                         "--sample", "the", "--sample-tokens", "3", *given)
        self.assertIn("39 texts", out)
        self.assertIn("sample at step 2:\n<|begin|>the", out)
        self.path.rename(folder / "moved.json")
        self.assertIn("made before", self.start("train", "--out", run, "--steps", "4"))
        # The same as with tokens that were made by hand.
        subprocess.run([sys.executable, ROOT / "scripts/make_tokens.py", "--tokenizer", folder / "moved.json", "--separator", "<|begin|>",
                        "--out", tokens, texts], check=True, capture_output=True)
        other = folder / "other"
        self.start("train", "--data", tokens, "--out", other, "--steps", "2", *given)
        self.start("train", "--out", other, "--steps", "4")
        losses = [[json.loads(line).get("loss") for line in (place / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
                  for place in (run, other)]
        self.assertEqual(*losses)
        self.assertGreaterEqual(len(losses[0]), 4)
        self.assertRegex(self.start("eval", run, "--data", texts), r"eval step 4 \| loss 5")
        texts.write_text(json.dumps({"text": "a slow red fox " * 900}) + "\n")
        done = subprocess.run([PROGRAM, "eval", str(run)], capture_output=True, env={**os.environ, "ZERO_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn(b"data have changed", done.stderr)

    @unittest.skipUnless(PROGRAM, "no program")
    def test_a_run_learns_what_the_assistant_says(self):
        folder = Path(self.folder.name)
        chats, run = folder / "chats.jsonl", folder / "run"
        self.path.with_name("chat_template.jinja").write_text(
            "{% for m in messages %}{{ m.role }}:\n{{ m.content }}<|begin|>{% endfor %}{{ strftime_now('%Y') }}")
        turns = [[{"role": "user", "content": f"the {n} fox?"}, {"role": "assistant", "content": "quick " * n}] for n in range(1, 9)]
        chats.write_text("".join(json.dumps({"messages": turn}) + "\n" for turn in turns))
        # The words of the assistant and the end of its turn.
        num_trained = sum(len(self.tokenizer.encode(turn[1]["content"], add_special_tokens=False)) + 1 for turn in turns)
        given = ["--tokenizer", self.path, "--separator", "none", "--data", chats, "--model", "llama", "--layers", "1", "--dim", "16",
                 "--heads", "2", "--seq-len", "144", "--chat-date", "1999-02-28",
                 "--schedule", "constant"]
        shown = self.start("train", *given, "--out", folder / "dry", "--dry-run")
        self.assertIn("user:\nthe 1 fox?<|begin|>assistant:\n\u27e6quick <|begin|>\u27e71999\n", shown)
        self.assertIn("8 examples", shown)
        self.assertIn(f"{num_trained} of them trained", shown)
        packed = self.start("train", *given, "--out", folder / "packed", "--steps", "4", "--global-batch", "2", "--micro-batch", "1")
        self.assertIn("2 samples of 144 tokens", packed)
        given += ["--pack=false", "--global-batch", "8", "--micro-batch", "2"]
        self.start("train", *given, "--out", run, "--steps", "2", "--ranks", "2")
        self.start("train", "--out", run, "--steps", "4")
        self.start("train", *given, "--out", folder / "alone", "--steps", "4")
        records = [[json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()] for place in (run, folder / "alone", folder / "packed")]
        steps = [[record for record in some if record["type"] == "step"] for some in records]
        self.assertEqual([record["tokens"] for record in steps[0]], [num_trained] * 4)
        for one, other, packed in zip(*steps):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=2e-5)
            self.assertAlmostEqual(packed["loss"], other["loss"], delta=2e-5)
        self.assertIn("8 of 8 samples", self.start("eval", run, "--data", chats))
        self.assertTrue(self.start("generate", run, "--chat", "the fox?", "--num-tokens", "3").endswith("\n"))

    @unittest.skipUnless(PROGRAM, "no program")
    def test_a_tokenizer_of_257_tokens_is_no_text_of_bytes(self):
        sys.path.insert(0, str(ROOT / "examples/chat"))
        from make_chats import make_tokenizer
        folder = Path(self.folder.name)
        make_tokenizer(folder / "tok", ["<|end|>"])
        (folder / "a.jsonl").write_text(json.dumps({"text": "x" * 50}) + "\n" + json.dumps({"text": "y" * 50}) + "\n")
        self.start("train", "--tokenizer", folder / "tok", "--data", folder / "a.jsonl", "--out", folder / "run", "--steps", "1",
                   "--model", "llama", "--layers", "1", "--dim", "16", "--heads", "2", "--seq-len", "16", "--global-batch", "4")
        # 102 tokens; of bytes there are 127.
        self.assertIn("6 of 6 samples", self.start("eval", folder / "run"))
        self.assertTrue(self.start("generate", folder / "run", "--prompt", "x", "--num-tokens", "2").startswith("x"))

    @unittest.skipUnless(PROGRAM, "no program")
    def test_generate_speaks_by_the_folder(self):
        run, folder = (Path(self.folder.name) / name for name in ("run", "folder"))
        self.start("seed", "--out", run, "--model", "llama", "--layers", "1", "--dim", "16", "--heads", "2", "--vocab", VOCABULARY,
              "--seq-len", "64", "--seed", "1")
        self.start("export", run, "--to", folder)
        prompt = "the quick 東"
        ids = self.tokenizer.encode(prompt).ids
        words = ["--num-tokens", "8", "--temperature", "0"]
        numbers = self.start("generate", folder, "--prompt", " ".join(map(str, ids)), *words).split()
        (folder / "tokenizer.json").write_bytes(self.path.read_bytes())
        text = self.start("generate", folder, "--prompt", prompt, *words)
        self.assertTrue(text.startswith("<|begin|>" + prompt), text)
        of_numbers = self.start("generate", folder, "--prompt", " ".join(map(str, ids)), *words)
        self.assertEqual(of_numbers, text)
        self.assertEqual(list(map(int, numbers[:len(ids)])), ids)


if __name__ == "__main__":
    unittest.main()
