#!/usr/bin/env python3
"""Train a small GPT with masters, states and gradients stored in fewer bits; print rows of JSON.

    scripts/bench/accuracy.py PROGRAM DATA EVAL_DATA [STEPS [SEEDS]]

Each way of storing trains from the same seeds. `eval_loss` is the mean over the seeds at the end of the runs; `difference`
is the mean of what each seed's run lost or won against fp32 masters and states, and `spread` that of the baseline's own
runs between seeds (their standard deviation), which says how large a difference means something.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = "--layers 4 --dim 128 --heads 4 --seq-len 128 --dtype bf16".split()
WORK = "--global-batch 8 --micro-batch 8 --lr 1e-3 --schedule constant --warmup-steps 20 --recompute none --metrics jsonl".split()
WAYS = ["", "--master split", "--state-dtype bf16", "--grad-dtype bf16", "--master split --state-dtype bf16 --grad-dtype bf16"]


def eval_loss(program, data, eval_data, steps, seed, way):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "train", "--data", data, "--eval-data", eval_data, "--out", f"{folder}/run", *MODEL, *WORK]
        command += ["--steps", str(steps), "--eval-every", str(steps), "--seed", str(seed), *way.split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["type"] == "eval"][-1]


def main():
    program, data, eval_data = sys.argv[1:4]
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 400
    num_seeds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    found = {way: [eval_loss(program, data, eval_data, steps, seed, way) for seed in range(num_seeds)] for way in WAYS}
    rows = []
    for way, losses in found.items():
        differences = [ours - base for ours, base in zip(losses, found[""])]
        rows.append({"name": way or "all in fp32", "steps": steps, "seeds": num_seeds,
                     "eval_loss": statistics.mean(losses), "difference": statistics.mean(differences),
                     "spread": statistics.stdev(losses) if num_seeds > 1 else 0.0})
    print(json.dumps(rows))


main()
