#!/usr/bin/env python3
"""How much faster is a step of the Llama family with this build than with another one, and how much memory do its activations take?

    scripts/bench/layer_step.py OLD_FOLDER NEW_FOLDER [ROUNDS]      folders with bin/zero_launch, such as build; 3 rounds

Both programs train in turn on one thread, sequence 512, micro-batch 4, `--recompute none`. Prints medians of the steps'
milliseconds without each run's first step, and the most that activations took. Takes half an hour.
"""

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = {"llama-10m": 8, "smollm2-135m": 3}  # steps


def run(folder, preset, dtype, data, out):
    """Milliseconds of each step but the first, MiB of activations."""
    text = subprocess.run([Path(folder) / "bin/zero_launch", "train", "--model", "llama", "--preset", preset, "--seq-len", "512",
                           "--micro-batch", "4", "--global-batch", "4", "--steps", str(MODELS[preset]), "--threads", "1",
                           "--dtype", dtype, "--data", data, "--out", out, "--save-every", "0", "--recompute", "none",
                           "--eval-fraction", "0", "--resume", "never"],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    subprocess.run(["rm", "-r", out], check=True)
    size, unit = re.search(r"activations .* planned, ([\d.]+) (MiB|GiB) at most", text).groups()
    steps = [float(number) for number in re.findall(r"\| +(\d+) ms", text)]
    return steps[1:], float(size) * (1024 if unit == "GiB" else 1)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    print("| model | type | before, ms | now, ms | faster by | before, MiB | now, MiB | now by before |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "text"
        data.write_text("All work and no play makes Jack a dull boy.\n" * 20000)
        for preset in MODELS:
            for dtype in ("fp32", "bf16"):
                times, sizes = ([], []), [0, 0]
                for _ in range(rounds):
                    for which in (0, 1):
                        steps, sizes[which] = run(sys.argv[1 + which], preset, dtype, data, Path(folder) / "run")
                        times[which].extend(steps)
                old, new = (statistics.median(each) for each in times)
                print(f"| {preset} | {dtype} | {old:.0f} | {new:.0f} | {old / new:.2f} | {sizes[0]:.0f} | {sizes[1]:.0f} | "
                      f"{sizes[1] / sizes[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
