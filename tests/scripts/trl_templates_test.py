#!/usr/bin/env python3
"""What is trained of conversations by the templates that PyPI's trl ships for published models, beside the ones that it ships to
train them, with {% generation %}, as transformers renders those. Skipped (77) where `scripts/references.sh trl` has not run.

    trl_templates_test.py [--table]    prints a line for each template

Theirs may differ in two ways that are meant: they train what the template itself writes to make the model speak, and an end of
text behind the end of the turn.
"""
import glob
import json
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import other_python

other_python.require("transformers", "transformers")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts/references")]
from chat_templates import CONVERSATIONS, by_transformers  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from tokens.examples import Manner, Reader  # noqa: E402
from tokens.json_lines import Wrong  # noqa: E402
from tokens.shapes import chat  # noqa: E402
from tokens.targets import turns_of  # noqa: E402
from tokens.turns import prompt_of_model, render  # noqa: E402

CACHES = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
SPECIAL = re.compile(r"<[|｜]?[A-Za-z_▁0-9./\-]+[|｜]?>|\[/?[A-Z_]+\]")
# What looks like a special token and is text.
TEXT = re.compile("</?(think|tools?|tool_calls?|tool_response|function|parameters?|arg_key|arg_value|description|name|required|type|available_tools|"
                  "IMPORTANT)>")
MANNER = Manner(text_key="text", train_on="assistant", end_of_turn="", date="2026-11-26", special="error")
EOS = "<|END_OF_TURN_TOKEN|>", "<eos>"  # the first that a template has


def tokens_of(template):
    return {"bos_token": "<bos>", "eos_token": next((word for word in EOS if word in template), EOS[-1])}


def tokenizer_of(template):
    words = sorted({*tokens_of(template).values(), *(word for word in SPECIAL.findall(template) if not TEXT.fullmatch(word))})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(["a"], trainers.BpeTrainer(
        vocab_size=256 + len(words), special_tokens=words, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def ours(template, messages):
    """The text, which of its characters are trained, and what makes the model speak."""
    tokenizer, tokens = tokenizer_of(template), tokens_of(template)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "chat_template.jinja").write_text(template)
        Path(folder, "tokenizer_config.json").write_text(json.dumps(tokens))
        reader = Reader(tokenizer, folder, [tokenizer.token_to_id(tokens["eos_token"])], MANNER)
        reader.open_template()
    asked = chat({}, messages)
    rendered = render(reader.template, asked, "assistant")
    encoding = tokenizer.encode(rendered.text, add_special_tokens=False)
    trained = [False] * len(rendered.text)
    for first, last in turns_of(rendered.text, encoding.ids, encoding.offsets, rendered.spans, reader.ends):
        for begin, end in encoding.offsets[first:last]:
            trained[begin:end] = [True] * (end - begin)
    return rendered.text, trained, prompt_of_model(reader.template, asked)


def stretches(trained):
    """[begin, end) of what is trained."""
    edges = [i for i in range(len(trained) + 1) if (i and trained[i - 1]) != (i < len(trained) and trained[i])]
    return list(zip(edges[::2], edges[1::2]))


def joined(spans, text):
    """Those with white space at most between them are one."""
    whole = []
    for begin, end in spans:
        if whole and not text[whole[-1][1]:begin].strip():
            begin = whole.pop()[0]
        if text[begin:end].strip():
            whole.append((begin, end))
    return whole


def compared(plain, told, messages):
    """One word."""
    try:
        text, spans = by_transformers(told, messages, **tokens_of(plain))
    except Exception:  # of either library; such conversations are not for this template
        return "theirs refused"
    try:
        mine, trained, prompt = ours(plain, messages)
    except Wrong as wrong:
        return "refused: " + wrong.what
    if mine != text:
        return "other texts"
    mine, spans = stretches(trained), joined(spans, text)
    if len(mine) != len(spans):
        return "DIFFERENT"
    answer = "equal"
    for (begin, end), (their_begin, their_end) in zip(mine, spans):
        before, behind = text[their_begin:begin], text[end:their_end]
        if begin < their_begin or text[their_end:end].strip() or before not in prompt or behind.strip() not in ("", EOS[-1]):
            return "DIFFERENT"
        if before or behind.strip():
            answer = "equal but for the prompt or a second end"
    return answer


def main():
    folders = glob.glob(f"{CACHES}/zero/trl-*/trl/chat_templates")
    if not folders:
        print("skipped: no templates of trl here")
        return 77
    counts = Counter()
    for told in sorted(Path(folders[0]).glob("*_training.jinja")):
        plain = told.with_name(told.name.replace("_training", ""))
        answers = {name: compared(plain.read_text(), told.read_text(), messages) for name, messages in CONVERSATIONS.items()}
        counts.update(answer.split(":")[0] for answer in answers.values())
        if "--table" in sys.argv or "DIFFERENT" in answers.values():
            print(f"{plain.stem}: {answers}")
    print(dict(counts))
    return 1 if counts["DIFFERENT"] or counts["equal"] < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
