#!/usr/bin/env python3
"""Damaged lines of JSONL: each becomes what a few lines here make of it, or an error that names its line.

    json_lines_fuzz_test.py [FIRST_SEED COUNT]    skipped (77) where no Python has tokenizers
"""
import array
import copy
import json
import random
import struct
import sys
import tempfile
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
other_python.require("jinja2", "torch", "transformers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from tokens.examples import ExampleWriter, Manner, Work, make_examples, shapes_in  # noqa: E402
from tokens.problem import Problem  # noqa: E402
from tokens.token_files import TokenWriter  # noqa: E402

END, NUM_LINES = "<|end|>", 3
OUTPUTS = "tokens.tok", "targets.u8", "examples.idx"
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}" + END + "\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
GOOD = [
    {"messages": [{"role": "user", "content": "a ä"}, {"role": "assistant", "content": "b 東"}, {"role": "user", "content": "c"},
                  {"role": "assistant", "content": "d", "train": False}, {"role": "user", "content": "e"},
                  {"role": "assistant", "content": " f\n"}]},
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "system": "s"},
    {"prompt": "a ä\n", "completion": " b"},
    {"instruction": "a", "input": "b", "output": "c"},
]
VALUES = [None, True, 0, -1, 1e300, "", " ", "x", "\x00", "\ufdd0", "\ud800", END, "<|end", [], {}, [1], ["a"], {"a": 1}, "assistant",
          "user", "system", "tool", [{"type": "text", "text": "p"}], [{"type": "image"}], [{"type": "text", "text": 5}], "\u2028", "a" * 999,
          [[[]]], {"role": "assistant", "content": "q"}, [{"role": "user"}]]


def places_in(value):
    """(container, key) of all that it holds, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places_in(inner)


def damaged(record, generator):
    record = copy.deepcopy(record)
    for _ in range(generator.randint(1, 2)):
        container, key = generator.choice(list(places_in(record)) or [({"a": 1}, "a")])
        if generator.random() < 0.3:
            del container[key]
        else:
            container[key] = copy.deepcopy(generator.choice(VALUES))
    return record


def damaged_bytes(line, generator):
    line = bytearray(line)
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(line))
        what = generator.randrange(4)
        if what == 0:
            line[at] ^= 1 << generator.randrange(8)
        elif what == 1:
            del line[at:at + generator.randint(1, 4)]
        elif what == 2:
            line[at:at] = generator.choice([b"\\", b'"', b"{", b"]", b"\xff", b"\xc3", b"\\u", b"\0", b",", b"9" * 30, b"[" * 2000])
        else:
            line[at:] = b""
        if not line:
            return b""
    return bytes(line.replace(b"\n", b" "))


def expected_of(record):
    """The text with what is trained in [[...]], by the shapes' own words; None: it is no matter for these lines."""
    if {"prompt", "completion"} <= record.keys():
        if all(isinstance(record[key], str) for key in ("prompt", "completion")):
            return f"{record['prompt']}[[{record['completion']}{END}]]"
        return None
    messages = record.get("messages")
    if messages is None or not all(isinstance(message.get("content"), str) and "tool_calls" not in message for message in messages):
        return None
    text = ""
    for message in messages:
        turn = message["content"] + END
        is_trained = message["role"] == "assistant" and message.get("train") is not False
        text += f"<|{message['role']}|>\n" + (f"[[{turn}]]" if is_trained else turn) + "\n"
    return text


class Maker:
    def __init__(self, folder):
        self.path = Path(folder)
        self.tokenizer = Tokenizer(models.BPE())
        self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.tokenizer.decoder = decoders.ByteLevel()
        self.tokenizer.train_from_iterator(["user assistant"] * 3, trainers.BpeTrainer(
            vocab_size=280, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        (self.path / "chat_template.jinja").write_text(TEMPLATE)
        (self.path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))

    def make(self, raw):
        """Marked texts by line. Raises Problem."""
        data = self.path / "a.jsonl"
        data.write_bytes(raw)
        for made in OUTPUTS:
            (self.path / made).unlink(missing_ok=True)
        writer = ExampleWriter(TokenWriter(str(self.path / "tokens.tok"), self.tokenizer.get_vocab_size()), str(self.path))
        work = Work(self.tokenizer, str(self.path), [0], Manner("text", "assistant", "", "2026-11-26", "error"),
                    shapes_in([str(data)], "text"), None)
        make_examples(lambda batches: map(work, batches), [str(data)], writer, lambda _: None)
        ids = array.array("H", (self.path / "tokens.tok").read_bytes()[1024:])
        trained = (self.path / "targets.u8").read_bytes()
        entries = list(struct.iter_unpack("<qii", (self.path / "examples.idx").read_bytes()))
        assert len(ids) == len(trained) == entries[-1][0]
        return {line: self.marked(ids[begin:end], trained[begin:end]) for (begin, _, line), (end, _, _) in zip(entries, entries[1:])}

    def marked(self, ids, trained):
        pieces, begin = [], 0
        for at in range(1, len(ids) + 1):
            if at == len(ids) or trained[at] != trained[begin]:
                text = self.tokenizer.decode(list(ids[begin:at]), skip_special_tokens=False)
                pieces.append(f"[[{text}]]" if trained[begin] else text)
                begin = at
        return "".join(pieces)


def check(maker, seed):
    """Returns whether the lines were taken."""
    generator = random.Random(seed)
    good = generator.choice(GOOD)
    lines = [json.dumps(good, ensure_ascii=generator.random() < 0.5).encode() for _ in range(NUM_LINES)]
    at = generator.randrange(1, NUM_LINES)  # the first tells the shape
    record = damaged(good, generator)
    if generator.random() < 0.6:
        lines[at] = json.dumps(record).encode()
    else:
        lines[at], record = damaged_bytes(lines[at], generator), None
    raw = b"\n".join(lines) + b"\n"
    try:
        texts = maker.make(raw)
    except Problem as problem:
        assert f"line {at + 1}" in str(problem), (seed, str(problem))
        assert not list(maker.path.glob("*.part")), seed
        return False
    if record is None:
        try:
            record = json.loads(lines[at]) if lines[at].strip() else None
        except ValueError:
            raise AssertionError(f"seed {seed}: taken, and no JSON: {lines[at]!r}") from None
    for line, text in texts.items():
        expected = expected_of(record if line == at + 1 else good)
        assert expected is None or text == expected, (seed, line, text, expected)
    assert len(texts) == NUM_LINES - (record is None), seed
    return True


def main():
    first, count = map(int, sys.argv[1:] or (0, 600))
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(folder)
        taken = sum(check(maker, seed) for seed in range(first, first + count))
    print(f"{count} files, {taken} of them taken")
    return 0 if 0 < taken < count else 1


if __name__ == "__main__":
    sys.exit(main())
