#!/usr/bin/env python3
"""What waiting threads cost on a machine that does something else, and what they save on a quiet one.

    scripts/bench/busy_machine.py [PROGRAM [ROUNDS]]      build/bin/zero_launch, 15 rounds

One process of two threads trains a few steps of two small models, with OpenMP's own policy (spin for milliseconds), with
the program's (spin shortly, then yield) and with none, in turn; beside nothing, and beside a process that takes one core.
Prints medians of the seconds of a step, and their ratios. Takes about ten minutes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
POLICIES = {"OpenMP's": {"GOMP_SPINCOUNT": "300000"}, "zero's": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}
MODELS = {"gpt2-2m": ["--preset", "gpt2-2m"], "llama-10m": ["--model", "llama", "--preset", "llama-10m"]}
STEPS = 4  # the first one warms up


def step_seconds(program, model, policy, folder):
    """The median step of one short run."""
    out = Path(folder) / "run"
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    subprocess.run([program, "train", *MODELS[model], "--data", Path(folder) / "text", "--out", out, "--steps", str(STEPS),
                    "--global-batch", "2", "--micro-batch", "2", "--seq-len", "128", "--threads", "2", "--adam-threads", "1",
                    "--schedule", "constant", "--eval-fraction", "0", "--save-every", "0", "--resume", "never", "--quiet"],
                   env=environment | POLICIES[policy], check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    subprocess.run(["rm", "-r", out], check=True)
    return statistics.median([record["seconds"] for record in records if record["type"] == "step"][1:])


def busy():
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin/zero_launch"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_text("All work and no play makes Jack a dull boy.\n" * 5000)
        print("| model | beside | " + " | ".join(POLICIES) + " | zero's by OpenMP's |\n|" + "---|" * (len(POLICIES) + 3))
        medians = {}
        for model in MODELS:
            for beside in ("nothing", "a busy process"):
                other = busy() if beside != "nothing" else None
                try:
                    seconds = {policy: [] for policy in POLICIES}
                    for _ in range(rounds):
                        for policy in POLICIES:
                            seconds[policy].append(step_seconds(program, model, policy, folder))
                finally:
                    if other:
                        other.kill()
                        other.wait()
                medians[model, beside] = {policy: statistics.median(values) for policy, values in seconds.items()}
                ratios = [own / base for own, base in zip(seconds["zero's"], seconds["OpenMP's"])]
                print(f"| {model} | {beside} | " + " | ".join(f"{value * 1e3:.0f} ms" for value in medians[model, beside].values())
                      + f" | {statistics.median(ratios):.2f} |", flush=True)
        for model in MODELS:
            quiet, loaded = medians[model, "nothing"], medians[model, "a busy process"]
            print(f"{model}, beside a busy process, by quiet: "
                  + ", ".join(f"{policy} {loaded[policy] / quiet[policy]:.1f}" for policy in POLICIES))


if __name__ == "__main__":
    main()
