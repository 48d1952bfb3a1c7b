#!/usr/bin/env python3
"""What LibTorch keeps where shapes are ever new, as those of a mixture of experts, and what bounds it.

    scripts/bench/new_shapes.py [STEPS]      40; torch is that of setup.sh

Each step deals 1024 tokens to 8 experts in 4 layers, so that the number of rows of a product differs every time. Products are
oneDNN's, in bf16 where the processor has instructions for it, else in fp32. LibTorch keeps the kernels that it makes for them
in two caches of 1024: oneDNN's and its binding's (ideep). Prints the process's own memory (RssAnon) beside that of the start,
and the seconds of a step, for each way of bounding them; every way is a process of its own.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
WAYS = {"unbounded": {}, "oneDNN's 128": {NAMES[0]: "128"}, "ideep's 128": {NAMES[1]: "128"},
        "both 128": dict.fromkeys(NAMES, "128"), "both 32": dict.fromkeys(NAMES, "32")}
DIM, EXPERTS, LAYERS, TOKENS = 128, 8, 4, 1024


def python_of_torch():
    told = subprocess.check_output(["bash", "-c", f'source "{ROOT}/scripts/common.sh"; echo "$zero_venv"'], text=True)
    return Path(told.strip()) / "bin" / "python"


def own_mib():
    with open("/proc/self/status") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) / 1024


def products(torch, rows, up, down):
    """Those of an expert's forward and backward."""
    def product(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    hidden = product(rows, up)
    grad = product(hidden, down)
    hidden_grad = product(grad, down.t().contiguous())
    product(hidden_grad, up.t().contiguous())
    product(grad.t().contiguous(), hidden.t().contiguous())
    product(hidden_grad.t().contiguous(), rows.t().contiguous())


def measure(steps):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dtype = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32
    up, down = torch.randn(4 * DIM, DIM, dtype=dtype), torch.randn(DIM, 4 * DIM, dtype=dtype)
    begin, start, grown = own_mib(), time.perf_counter(), []
    with torch.no_grad():
        for step in range(1, steps + 1):
            for _ in range(LAYERS):
                tokens = torch.randn(TOKENS, DIM, dtype=dtype)
                chances = torch.softmax(torch.randn(EXPERTS) / 2, 0)
                chosen = torch.multinomial(chances, TOKENS, replacement=True)
                for expert in range(EXPERTS):
                    products(torch, tokens[chosen == expert], up, down)
            if step % max(1, steps // 4) == 0:
                grown.append((step, own_mib() - begin))
    print(json.dumps({"type": str(dtype), "grown": grown, "seconds": (time.perf_counter() - start) / steps}))


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    if len(sys.argv) > 2:
        return measure(steps)
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    for number, (way, variables) in enumerate(WAYS.items()):
        child = subprocess.run([python_of_torch(), __file__, str(steps), "child"], env=environment | variables, check=True,
                               stdout=subprocess.PIPE, text=True)
        found = json.loads(child.stdout.splitlines()[-1])
        if number == 0:
            heads = ["caches", "type", *(f"MiB at step {step}" for step, _ in found["grown"]), "ms a step"]
            print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        cells = [way, found["type"].removeprefix("torch."), *(f"{mib:.0f}" for _, mib in found["grown"]),
                 f"{found['seconds'] * 1e3:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
