#!/usr/bin/env python3
"""What a loss in chunks costs where units work through their batch by and by: --accumulate unit beside --accumulate model.

    scripts/bench/unit_loss.py [PROGRAM [ROUNDS]]      build/bin/zero_launch, 5 rounds

Trains a model whose head is most of its work, in turn, with one thread. Prints the CPU seconds that a step takes beyond the
start, medians and their ratio: with `unit` the head's logits are made twice, its gradients once. Two programs are compared by
calling it twice.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = 3


def cpu_seconds(program, mode, steps, folder):
    before = os.times()
    subprocess.run([program, "train", "--model", "gptj", "--layers", "1", "--vocab", "16384", "--seq-len", "128", "--data",
                    Path(folder) / "text", "--out", Path(folder) / "run", "--steps", str(steps), "--global-batch", "8",
                    "--micro-batch", "2", "--accumulate", mode, "--loss-chunk", "64", "--threads", "1", "--adam-threads", "1",
                    "--schedule", "constant", "--save-every", "0", "--resume", "never", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    subprocess.run(["rm", "-r", Path(folder) / "run"], check=True)
    return after.children_user - before.children_user


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin/zero_launch"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_text("All work and no play makes Jack a dull boy.\n" * 5000)
        found = {"model": [], "unit": []}
        for _ in range(rounds):
            for mode, seconds in found.items():
                one, more = (cpu_seconds(program, mode, steps, folder) for steps in (1, 1 + STEPS))
                seconds.append((more - one) / STEPS)
    ratio = statistics.median(unit / model for unit, model in zip(found["unit"], found["model"]))
    print("| accumulate model | accumulate unit | unit by model |\n|---|---|---|")
    print("| " + " | ".join(f"{statistics.median(seconds) * 1e3:.0f} ms" for seconds in found.values()) + f" | {ratio:.2f} |")


if __name__ == "__main__":
    main()
