#!/usr/bin/env python3
"""scripts/make_tokens.py against tokenizers itself. Skipped (77) where no Python has tokenizers."""

import json
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from array import array
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/make_tokens.py"
import other_python

other_python.require("tokenizers", "torch", "transformers")
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

sys.path.insert(0, str(SCRIPT.parent))
from tokens.documents import cut  # noqa: E402
from tokens.seams import Seams  # noqa: E402

END, BEGIN = "<|end|>", "<|begin|>"
WORDS = "the quick brown fox jumps, over 1234567 dogs. naïve cafés 東京都 🦊🦊 don't I'LL _x_ { } == -> \t tab".split(" ")
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def some_text(seed, words=400):
    """Words with all kinds of gaps."""
    pick = random.Random(seed)
    return "".join(pick.choice(WORDS) + pick.choice([" "] * 6 + ["\n"] * 3 + ["  ", "\n\n", " \n", "\r\n", "\n   "])
                   for _ in range(words))


def gpt2_like(prefix_space=False, trim=False):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def llama3_like():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def llama2_like():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def trained(tokenizer, text):
    """With a few hundred tokens; BEGIN goes before each text. Only llama2_like's merges could join words, and do not."""
    alphabet, bytes_ = pre_tokenizers.ByteLevel.alphabet(), []
    lines = text.splitlines(keepends=True)
    if not tokenizer.pre_tokenizer:
        alphabet, lines, bytes_ = [], text.split(), [f"<0x{i:02X}>" for i in range(256)]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=700, special_tokens=[END, BEGIN, *bytes_], initial_alphabet=alphabet, show_progress=False))
    if not tokenizer.post_processor:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BEGIN} $A", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))])
    return tokenizer


class MakeTokensTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.out = self.path / "out.tok"
        self.save(trained(llama3_like(), some_text(1)))

    def save(self, tokenizer):
        self.tokenizer = tokenizer
        tokenizer.save(str(self.path / "tokenizer.json"))
        self.write("tokenizer_config.json", json.dumps({"eos_token": {"content": END}}))
        self.end = tokenizer.token_to_id(END)

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run_script(self, *arguments, **options):
        return subprocess.run([sys.executable, SCRIPT, "--tokenizer", self.path, *map(str, arguments)], capture_output=True, **options)

    def make(self, *arguments):
        result = self.run_script("--out", self.out, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def refused(self, *arguments):
        result = self.run_script("--out", self.out, *arguments)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(sorted(p.name for p in self.path.glob("out*")), [])
        return result.stderr.decode()

    def tokens(self, path=None):
        data = (path or self.out).read_bytes()
        magic, version, width, count, vocabulary, masks = struct.unpack_from("<8s5i", data)
        self.assertEqual((magic, version, masks), (b"BIN.TOK\n", 2, 0))
        self.assertEqual(len(data), 1024 + width * count)
        self.assertEqual(vocabulary, self.tokenizer.get_vocab_size())
        return array("H" if width == 2 else "I", data[1024:]).tolist()

    def expected(self, *texts):
        return [token for text in texts for token in self.tokenizer.encode(text).ids + [self.end]]

    def test_pieces_encode_as_the_whole(self):
        kinds = [gpt2_like(), gpt2_like(trim=True), gpt2_like(prefix_space=True), llama3_like(), llama2_like()]
        for kind, tokenizer in enumerate(kinds):
            for seed in range(3):
                with self.subTest(kind=kind, seed=seed):
                    self.out = self.path / f"{kind}_{seed}.tok"
                    self.save(trained(tokenizer, some_text(1)) if seed == 0 else tokenizer)
                    text = some_text(seed + 10)
                    self.make(self.write("a.txt", text), "--piece-chars", 40)
                    self.assertEqual(self.tokens(), self.expected(text))

    def test_pieces_encode_as_the_whole_whatever_is_joined_or_trimmed(self):
        joins_all = Tokenizer(models.BPE())
        joins_all.train_from_iterator(["a\nb"] * 9, trainers.BpeTrainer(special_tokens=[END], show_progress=False))
        trims = trained(gpt2_like(), some_text(1))
        trims.normalizer = normalizers.Strip()
        threes = gpt2_like()
        threes.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        pick = random.Random(1)
        unknown = Tokenizer(models.WordPiece({END: 0, "[UNK]": 1, "dog": 2}, unk_token="[UNK]"))
        unknown.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        digits = "".join(map(str, range(800)))
        blanks = trained(gpt2_like(trim=True), some_text(1))  # such a token is empty, and begins where the next one does
        blanks.add_tokens([AddedToken(" " * count) for count in range(24, 1, -1)])
        code = "\n    x".join(["dog"] * 60)
        for tokenizer, text in ((joins_all, "a\nb" * 99), (trims, "\n".join(["ick", "dog"] * 400)),
                                (trained(threes, some_text(1) + digits), some_text(2) + digits + "\n" + digits),
                                (gpt2_like(), "".join(pick.choice("東京都🦊12") for _ in range(900))),
                                (blanks, code + " " * 200 + code),
                                (unknown, "x" * 300 + " dog " + "y" * 50 + " dog" * 99)):
            def encode(part, tokenizer=tokenizer):
                return tokenizer.encode(part, add_special_tokens=False)
            for piece_chars in 4, 60, 150, 200, 300:
                with self.subTest(text=text[:9], piece_chars=piece_chars):
                    seams = Seams(encode)
                    ids = [seams.add(piece, encode(piece.text)) for piece in cut([text[:99], text[99:]], piece_chars, "")]
                    self.assertEqual(sum(ids, []), encode(text).ids)

    def test_what_stands_around_a_text_is_found_by_words_that_are_known(self):
        bases = Tokenizer(models.BPE({END: 0, BEGIN: 1, "A": 2, "C": 3}, []))
        bases.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, 1)])
        self.save(bases)
        self.make(self.write("a.txt", "ACCA"))
        self.assertEqual(self.tokens(), [1, 2, 3, 3, 2, 0])

    def test_a_text_without_tokens_is_told_by_its_file(self):
        words = Tokenizer(models.WordLevel({END: 0, "dog": 1}))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self.save(words)
        self.assertRegex(self.refused(self.write("a.jsonl", '{"text": "dog"}\n{"text": "cat"}')),
                         r"cannot encode(.|\n)*a.jsonl, line 2")

    def test_blocks_of_a_file_may_cut_characters(self):
        text = "🦊東é\n" * 300_000  # 3 MB, of which no 4 bytes begin a block
        self.make(self.write("a.txt", text))
        self.assertEqual(self.tokens(), self.expected(text))

    def test_files_and_lines_are_documents(self):
        self.write("data/b.txt", "second")
        self.write("data/a.txt", "first")
        self.write("data/.hidden", "never")
        self.write("data/empty.txt", "")
        lines = self.write("c.jsonl", '{"text": "third"}\n\n{"text": ""}\n{"text": "four\\nth \\ud83e\\udd8a"}')
        said = self.make(self.path / "data", lines)
        self.assertEqual(self.tokens(), self.expected("first", "second", "third", "four\nth 🦊"))
        self.out = self.path / "other.tok"
        self.make(self.write("D.JSONL", b"\xef\xbb\xbf" + b'{"text": "fifth"}'))  # of Windows
        self.assertEqual(self.tokens(), self.expected("fifth"))
        self.assertIn("4 document(s)", said)
        self.assertIn(f"separator {END} ({self.end}) by eos_token of tokenizer_config.json", said)

    def test_another_field_and_separator(self):
        lines = self.write("c.jsonl", '{"body": "one"}\n{"body": "two"}')
        self.make(lines, "--text-key", "body", "--separator", "none")
        self.assertEqual(self.tokens(), [t for t in self.expected("one", "two") if t != self.end])

    def test_end_of_text_of_config(self):
        self.write("tokenizer_config.json", "{}")
        self.write("config.json", '{"eos_token_id": [1, 0]}')
        self.assertIn(f"separator {BEGIN} (1) by eos_token_id of config.json", self.make(self.write("a.txt", "one")))
        self.assertEqual(self.tokens()[-1], 1)

    def test_wide_tokens(self):
        tokenizer = Tokenizer(models.WordLevel({END: 0, **{f"w{i}": i for i in range(1, 70_000)}}, unk_token=END))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self.save(tokenizer)
        self.assertIn("uint32", self.make(self.write("a.txt", "w1 w69999")))
        self.assertEqual(self.tokens(), [1, 69_999, 0])

    def test_a_long_corpus_takes_several_files(self):
        text = some_text(5)
        self.assertIn("out-2.tok", self.make(self.write("a.txt", text), "--tokens-per-file", 300))
        files = [self.out, *(self.path / f"out-{i}.tok" for i in range(2, 2 + len(list(self.path.glob("out-*.tok")))))]
        self.assertGreater(len(files), 2)
        self.assertEqual([t for file in files for t in self.tokens(file)], self.expected(text))

    def test_decode_gives_the_text_back(self):
        text = some_text(6)
        self.make(self.write("a.txt", text))
        back = self.run_script("--decode", self.out).stdout.decode()
        self.assertEqual(back, BEGIN + text + END)

    def test_decode_reads_numbers_as_generate_prints_them(self):
        numbers = " ".join(map(str, self.tokenizer.encode("the quick").ids)) + "\n"
        for file, options in ((self.write("ids.txt", numbers), {}), ("-", {"input": numbers.encode()})):
            self.assertEqual(self.run_script("--decode", file, **options).stdout.decode(), BEGIN + "the quick")
        for other in ("", "5 x\n"):
            result = self.run_script("--decode", self.write("ids.txt", other))
            self.assertEqual(result.returncode, 1)
            self.assertIn("neither numbers of tokens nor a token file", result.stderr.decode())

    def test_invalid_text_is_told_by_line_and_byte(self):
        where = "line 3, byte 10"
        self.assertIn(where, self.refused(self.write("a.txt", b"one\ntwo\nab\xff\n")))
        self.assertIn("line 1, byte 1", self.refused(self.write("a.txt", b"x\xf0\x9f")))  # the end is missing
        self.assertIn("line 2, byte 14", self.refused(self.write("a.jsonl", b'{"text":"a"}\n"\xff"')))

    def test_invalid_text_behind_the_first_block(self):
        start = "é\n".encode() * 500_000
        self.assertIn(f"line 500001, byte {len(start) + 1}", self.refused(self.write("a.txt", start + b"a\xe9\n")))

    def test_several_wrong_lines_are_told_together(self):
        good, bad = b'{"text": "a"}\n', b'{"txt": "a"}\n'
        error = self.refused(self.write("a.jsonl", good + bad + good + b"[1]\n"))
        for part in ("2 lines cannot be used", 'line 2, byte 14: the line has no text in "text"', "line 4, byte 41: the line holds no"):
            self.assertIn(part, error)
        many = self.refused(self.write("a.jsonl", bad * 30))
        self.assertIn("at least 20 lines", many)
        self.assertIn("line 20, ", many)
        self.assertNotIn("line 21, ", many)

    def test_lines_that_are_no_documents(self):
        good = '{"text": "a"}\n'
        for line, told in (("{", "no JSON"), ("[1]", "no object"), ('{"text": 1}', 'no text in "text"'),
                           ('{"text": "\\ud800"}', "\\ud800")):
            with self.subTest(line=line):
                error = self.refused(self.write("a.jsonl", good + line + "\n"))
                self.assertIn(told, error)
                self.assertIn("a.jsonl, line 2, byte 14", error)

    def test_what_is_missing(self):
        self.assertIn("no text", self.refused(self.write("a.txt", "")))
        self.assertIn("does not exist", self.refused(self.path / "nothing"))
        self.assertIn("no token <nope>", self.refused(self.write("a.txt", "a"), "--separator", "<nope>"))
        self.write("tokenizer_config.json", "{}")
        self.assertIn("nothing tells which token ends", self.refused(self.write("a.txt", "a")))
        (self.path / "tokenizer.json").unlink()
        self.assertIn("no tokenizer.json", self.refused(self.write("a.txt", "a")))

    def test_files_are_not_written_over(self):
        self.make(self.write("a.txt", "a"))
        result = self.run_script("--out", self.out, self.path / "a.txt")
        self.assertIn("there already", result.stderr.decode())
        self.assertEqual(self.tokens(), self.expected("a"))


if __name__ == "__main__":
    unittest.main()
