#!/usr/bin/env python3
"""How much faster is a step than with another build, and how much smaller are its activations?

    scripts/bench/layer_step.py OLD NEW [ROUNDS [PRESET...]]      folders of bin/zero_launch; 5 rounds; llama-10m, smollm2-135m

Runs of both builds alternate: 512 tokens a sample, 4 samples a step, one thread, nothing recomputed, fp32 and bf16. A round's
seconds are the median of its steps but the first two; the table has the median of all rounds.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = {"smollm2-135m": 5}
FLAGS = ["--seq-len", "512", "--micro-batch", "4", "--global-batch", "4", "--threads", "1", "--adam-threads", "1", "--device", "cpu",
         "--eval-fraction", "0", "--recompute", "none", "--bytes"]


def run(program, preset, dtype, folder):
    """Seconds of a step, and bytes of activations."""
    out = Path(folder) / "run"
    subprocess.run([program, "train", "--data", f"{folder}/text", "--out", out, "--resume", "never", "--preset", preset, "--dtype",
                    dtype, "--steps", str(STEPS.get(preset, 8)), *FLAGS], check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    subprocess.run(["rm", "-r", out], check=True)
    seconds = [record["seconds"] for record in records if record["type"] == "step"][2:]
    return statistics.median(seconds), next(r["activations_peak"] for r in records if r["type"] == "memory")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    builds = [Path(folder) / "bin/zero_launch" for folder in sys.argv[1:3]]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    print("| model | type | old s | new s | speed | old MiB | new MiB | activations |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_bytes(bytes(range(32, 127)) * 4000)
        for preset in sys.argv[4:] or ["llama-10m", "smollm2-135m"]:
            for dtype in ("fp32", "bf16"):
                found = [[run(build, preset, dtype, folder) for build in builds] for _ in range(rounds)]
                old, new = ([statistics.median(values) for values in zip(*(pair[i] for pair in found))] for i in (0, 1))
                print(f"| {preset} | {dtype} | {old[0]:.3f} | {new[0]:.3f} | {old[0] / new[0]:.2f} | {old[1] / 2**20:.0f} | "
                      f"{new[1] / 2**20:.0f} | {new[1] / old[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
