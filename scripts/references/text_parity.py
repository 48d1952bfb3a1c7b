"""Compare the likeliest tokens of zero_launch, which reads each token once, with those of transformers, which reads the whole
text; print a table in Markdown.

    text_parity.py PROGRAM MODELS [CASE...]

Each token is compared behind those before it, whatever these are. Exit code 1 where transformers' likeliest token leads by more
than a limit, which is in bold then: in fp32 1e-5, in bf16 the distance to the next number beside the largest logit.
"""
import math
import sys
from pathlib import Path

import torch

from cases import CASES
from models import leads, load, logits_of, random_tokens
from zero_program import Program

MANNERS = {"fp32, 1 rank": ("fp32", 1), "fp32, 2 ranks": ("fp32", 2), "bf16, 1 rank": ("bf16", 1), "bf16, 2 ranks": ("bf16", 2)}
BF16_BITS = 8  # of a number, the leading 1 included
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PROMPT, CONTINUED = 8, 64
LONG_PROMPT, LONG_CONTINUED = 8200, 16  # of cases whose positions go on behind what they were trained for


def limit_of(model, text, dtype):
    if dtype == "fp32":
        return 1e-5
    with torch.no_grad():
        largest = logits_of(model, torch.tensor([text])).abs().max().item()
    return 2 ** (math.frexp(largest)[1] - BF16_BITS)


def cell(program, folder, dtype, ranks):
    """How many of the tokens are the likeliest, and the largest lead of another one."""
    prompt_length, count = (LONG_PROMPT, LONG_CONTINUED) if folder.name.endswith("_long") else (PROMPT, CONTINUED)
    prompt = random_tokens(1, prompt_length, seed=11)[0].tolist()
    model = load(folder, TYPES[dtype])
    text = program.continue_greedily(folder, prompt, count, ranks, dtype)
    found = leads(model, prompt, text)
    equal, worst = found.count(0), max(found)
    shown = f"{equal} of {count}" + (f", {worst:.1e}" if worst else "")
    is_good = worst <= limit_of(model, prompt + text, dtype)
    return (shown if is_good else f"**{shown}**"), is_good


def main():
    program, models = Program(sys.argv[1]), Path(sys.argv[2])
    print("| model | " + " | ".join(MANNERS) + " |\n|" + "---|" * (1 + len(MANNERS)))
    all_good = True
    for name in sys.argv[3:] or CASES:
        cells = [cell(program, models / name, *manner) for manner in MANNERS.values()]
        all_good &= all(is_good for _, is_good in cells)
        print(f"| {name} | " + " | ".join(shown for shown, _ in cells) + " |", flush=True)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
