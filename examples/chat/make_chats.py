#!/usr/bin/env python3
"""Make what docs/fine-tuning.md needs: a tokenizer with a chat template, and conversations about sums.

    examples/chat/make_chats.py DIR

DIR/tokenizer is a folder as Hugging Face's are; its tokens are bytes and five words. DIR/chats.jsonl has 2,000 questions with
their answers, DIR/others.jsonl 50 more. Any Python will do.
"""
import json
import random
import sys
from pathlib import Path

WORDS = "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"
TEMPLATE = ("{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def byte_names():
    """Of each byte, as byte-level tokenizers write it: printable ones are themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def make_tokenizer(folder, words=WORDS, template=TEMPLATE):
    """The first of the words ends texts."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    numbers = {word: 256 + i for i, word in enumerate(words)}
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True} for word, number in numbers.items()],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {**{name: byte for byte, name in byte_names().items()}, **numbers}}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": words[0]}))
    (folder / "chat_template.jinja").write_text(template)


def chats(number, seed):
    pick = random.Random(seed)
    for _ in range(number):
        a, b = pick.randint(0, 9), pick.randint(0, 9)
        yield json.dumps({"messages": [{"role": "user", "content": f"What is {a} + {b}?"},
                                       {"role": "assistant", "content": f"It is {a + b}."}]}) + "\n"


def main():
    folder = Path(sys.argv[1])
    make_tokenizer(folder / "tokenizer")
    (folder / "chats.jsonl").write_text("".join(chats(2000, 1)))
    (folder / "others.jsonl").write_text("".join(chats(50, 2)))
    print(f"{folder}: tokenizer, chats.jsonl, others.jsonl")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main()
