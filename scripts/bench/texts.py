#!/usr/bin/env python3
"""How fast texts and conversations become tokens, beside encode_batch_fast of the same texts in Python.

    scripts/bench/texts.py [--megabytes 30] [--rounds 5] | scripts/bench/tables.py     needs tokenizers

Both start from JSONL and end in a file of tokens, a process each, in turn. "again" is a start that finds the tokens; its
program starts included. Words are those of this project's pages, in any order; the tokenizer has learnt them.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ZERO_PROGRAM", ROOT / "build/bin/zero_launch")
END = "<|end|>"
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
PEER = """
import array, json, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
end, texts, chars = tokenizer.token_to_id("<|end|>"), [], 0
with open(sys.argv[2]) as lines, open(sys.argv[3], "wb") as out:
    def write():
        for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            out.write(array.array("H", [*encoding.ids, end]).tobytes())
    for line in lines:
        record = json.loads(line)
        text = record.get("text") or "".join(f"<|{m['role']}|>\\n{m['content']}<|end|>\\n" for m in record["messages"])
        texts.append(text)
        chars += len(text)
        if chars >= 1 << 20:
            write()
            texts, chars = [], 0
    write()
"""


def save_tokenizer(folder, words):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([" ".join(words)], trainers.BpeTrainer(
        vocab_size=8000, special_tokens=[END, "<|user|>", "<|assistant|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_corpus(path, num_bytes, words, generator, record_of):
    """Texts of 20 to 800 words."""
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < num_bytes:
            file.write(json.dumps(record_of(" ".join(generator.choices(words, k=generator.randint(20, 800))))) + "\n")


def as_chat(text):
    half = len(text) // 2
    return {"messages": [{"role": "user", "content": text[:half]}, {"role": "assistant", "content": text[half:]}]}


def seconds_of(command):
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, capture_output=True, env={**os.environ, "ZERO_PYTHON": sys.executable})
    return time.perf_counter() - begin


def measure(kind, data, folder, rounds):
    rows = {"ours": [], "peer": [], "again": []}
    for number in range(rounds):
        ours = [PROGRAM, "tokenize", "--tokenizer", folder, "--data", data, "--token-cache", folder / f"{kind}{number}"]
        rows["ours"].append(seconds_of(ours))
        rows["peer"].append(seconds_of([sys.executable, "-c", PEER, folder / "tokenizer.json", data, folder / "peer.tok"]))
        rows["again"].append(seconds_of(ours))
    pairs = [peer / ours for ours, peer in zip(rows["ours"], rows["peer"])]
    ours, peer, again = (statistics.median(rows[key]) for key in ("ours", "peer", "again"))
    return {"lines": kind, "MB": data.stat().st_size / 1e6, "seconds": ours, "encode_batch_fast": peer,
            "of its speed": statistics.median(pairs), "again": again}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--megabytes", type=float, default=30)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*/*.md")]
    words = [word for page in pages for word in page.read_text().split() if "|" not in word]
    generator = random.Random(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_tokenizer(folder, words)
        for kind, record_of in (("texts", lambda text: {"text": text}), ("conversations", as_chat)):
            data = folder / f"{kind}.jsonl"
            write_corpus(data, given.megabytes * 1e6, words, generator, record_of)
            rows.append(measure(kind, data, folder, given.rounds))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
