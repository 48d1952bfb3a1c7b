#!/usr/bin/env python3
"""Plans of models that no machine at hand holds: what `zero_launch plan` counts, and nothing is allocated.

    scripts/bench/paper_plans.py [PROGRAM]

First what weights, gradients and optimizer state take of a rank beside 16 bytes a parameter over the ranks, the row of
full sharding of table 1 in Rajbhandari et al., "ZeRO", SC 2020: bf16 weights and gradients, fp32 masters and moments.
Then models on GPUs of 32 and 80 GiB, eight on a host, reduced in bf16. Exits with 1 where a plan takes over 0.1 % more
than the paper, or one of the models does not fit.
"""

import json
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/bin/zero_launch"
RINGS = {"gather ring", "gradient ring"}
STATE = {"masters", "exp_avg", "exp_avg_sq", "gradients", "bf16 copy"}
MOST_OVER_THE_PAPER = 0.001
# Layers, dim and heads of GPTs of about 7.5, 128 and 1000 billion parameters.
SIZES = {"7.5B": (36, 4096, 32), "128B": (52, 14336, 112), "1T": (128, 25600, 160)}
# The model of fairseq's tutorial on full sharding, GPT-3, and one of 1e12: with heads of their own.
MODELS = {"13.1B": (40, 5120, 40), "175B": (96, 12288, 96), "1.0e12": (128, 25600, 160)}
# Model, GPUs, GiB of each, GiB of a host, samples of a step, settings.
HALVES, OFFLOADED = "--units sublayer", "--offload-activations"
MACHINES = [("13.1B", 1, 32, 256, 8, ""), ("13.1B", 8, 32, 256, 8, ""), ("175B", 128, 32, 256, 128, ""),
            ("175B", 128, 32, 256, 128, HALVES), ("175B", 128, 32, 256, 128, OFFLOADED),
            ("175B", 128, 32, 256, 128, f"{HALVES} {OFFLOADED}"), ("1.0e12", 1024, 80, 1024, 1024, ""),
            ("1.0e12", 1024, 80, 1024, 1024, HALVES)]


def plan(layers, dim, heads, ranks, *words):
    """The plan of a GPT in bf16, as JSON."""
    words = [PROGRAM, "plan", "--json", "--model", "gpt2", "--layers", layers, "--dim", dim, "--heads", heads, "--vocab",
             50272, "--ranks", ranks, "--micro-batch", 1, "--dtype", "bf16", "--grad-dtype", "bf16", *words]
    return json.loads(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True).stdout)


def print_zero_table():
    """Whether all are near the paper."""
    are_near = True
    print("| model | parameters | ranks | 16 bytes x parameters / ranks | planned | more |\n|---|---|---|---|---|---|")
    for name, size in SIZES.items():
        for ranks in 1, 4, 16, 64, 256, 1024:
            made = plan(*size, ranks, "--global-batch", ranks, "--device", "cpu")
            parameters = made["model"]["parameters"]
            planned = sum(entry["bytes"] for entry in made["engine"] if entry["owner"] in STATE)
            paper = 16 * parameters / ranks
            are_near &= planned / paper - 1 <= MOST_OVER_THE_PAPER
            print(f"| {name} | {parameters:,} | {ranks:,} | {paper / 1e9:,.2f} GB | {planned / 1e9:,.2f} GB "
                  f"| {100 * (planned / paper - 1):.2f} % |")
    return are_near


def print_machines():
    """Whether all fit."""
    do_fit = True
    print("| model | parameters | GPUs | settings | rings | activations | of a GPU | of its memory | of host memory, a rank | fits |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, ranks, gpu, host, batch, settings in MACHINES:
        # Of the ranks that share a host, eight, each has a part of its memory.
        a_host = min(ranks, 8)
        made = plan(*MODELS[name], ranks, "--global-batch", batch, "--seq-len", 2050, "--model-config",
                    "tie_word_embeddings=false", "--device", "cuda", "--device-memory", f"{gpu}GiB", "--host-memory",
                    f"{host * ranks // a_host}GiB", "--loss-chunk", 1024, "--reduce-dtype", "bf16", *settings.split())
        do_fit &= made["fits"]
        in_host = made["bytes_per_node"] / ranks
        rings = sum(entry["bytes"] for entry in made["engine"] if entry["owner"] in RINGS)
        print(f"| {name} | {made['model']['parameters']:,} | {ranks:,} | {f'`{settings}`' if settings else ''} | {rings / 2**30:.1f} GiB "
              f"| {made['activation_bytes_per_rank'] / 2**30:.1f} GiB | {made['gpu_bytes_per_rank'] / 2**30:.1f} GiB "
              f"| {gpu} GiB | {in_host / 2**30:.1f} GiB of {host / a_host:.0f} | {'yes' if made['fits'] else 'no'} |")
    return do_fit


if __name__ == "__main__":
    are_near = print_zero_table()
    print()
    sys.exit(0 if print_machines() and are_near else 1)
