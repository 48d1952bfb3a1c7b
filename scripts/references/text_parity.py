"""Compare the likeliest tokens of zero_launch, which reads each token once, with those of transformers, which reads the whole
text; print a table in Markdown.

    text_parity.py PROGRAM MODELS [CASE...]

Prompts of 1 to 40 random tokens go through in batches of 5. Each token is compared behind those before it, whatever these are.
Exit code 1 where transformers' likeliest token leads by more than a limit, which is in bold then: in fp32 1e-5, in bf16 two
roundings of the largest logit. The last column compares transformers with its own cache in the same way.
"""
import math
import random
import sys
import tempfile
from pathlib import Path

import torch

from cases import CASES
from models import behind, leads, load, random_tokens
from zero_program import Program

MANNERS = {"fp32, 1 rank": ("fp32", 1), "fp32, 2 ranks": ("fp32", 2), "bf16, 1 rank": ("bf16", 1), "bf16, 2 ranks": ("bf16", 2)}
BF16_BITS = 8  # of a number, the leading 1 included
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PROMPTS, LONGEST, CONTINUED, ROWS = 24, 40, 32, 5
LONG_PROMPT, LONG_CONTINUED = 8200, 16  # of a model whose positions go on behind what it was trained for


def prompts_for(name):
    """Random ones, and how many tokens follow each."""
    if name.endswith("_long"):
        return random_tokens(1, LONG_PROMPT, seed=11).tolist(), LONG_CONTINUED
    lengths = random.Random(11)
    return [random_tokens(1, lengths.randint(1, LONGEST), seed)[0].tolist() for seed in range(PROMPTS)], CONTINUED


def limit_of(logits, dtype):
    return 1e-5 if dtype == "fp32" else 2 * math.ldexp(1, math.frexp(logits.abs().max().item())[1] - BF16_BITS)


def shown(found):
    return f"{found.count(0)} of {len(found)}" + (f", {max(found):.1e}" if max(found) else "")


def cell(program, folder, work, dtype, ranks):
    """How many of the tokens are the likeliest, and the largest lead of another one."""
    prompts, count = prompts_for(folder.name)
    model = load(folder, TYPES[dtype])
    texts = program.continue_greedily(folder, prompts, count, work, batch=ROWS, dtype=dtype, ranks=ranks)
    assert len(texts) == len(prompts) and all(len(text) == count for text in texts), texts
    found, is_good = [], True
    for prompt, text in zip(prompts, texts):
        logits = behind(model, prompt, text)
        of_text = leads(logits, len(prompt), text)
        is_good &= max(of_text) <= limit_of(logits, dtype)
        found += of_text
    return (shown(found) if is_good else f"**{shown(found)}**"), is_good


def cell_of_theirs(folder, dtype):
    """The same of transformers with its own cache, a prompt at a time: how far two ways of one model part by rounding."""
    prompts, count = prompts_for(folder.name)
    model, found = load(folder, TYPES[dtype]), []
    model.generation_config.eos_token_id = None
    for prompt in prompts:
        made = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
                              max_new_tokens=count)
        text = made[0, len(prompt):].tolist()
        found += leads(behind(model, prompt, text), len(prompt), text)
    return shown(found)


def main():
    program, models = Program(sys.argv[1]), Path(sys.argv[2])
    print("| model | " + " | ".join(MANNERS) + " | their cache, bf16 |\n|" + "---|" * (2 + len(MANNERS)))
    all_good = True
    for name in sys.argv[3:] or CASES:
        with tempfile.TemporaryDirectory() as work:
            cells = [cell(program, models / name, Path(work), *manner) for manner in MANNERS.values()]
        all_good &= all(is_good for _, is_good in cells)
        print(f"| {name} | " + " | ".join(text for text, _ in cells) + f" | {cell_of_theirs(models / name, 'bf16')} |", flush=True)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
