#!/usr/bin/env python3
"""How fast does verify read a checkpoint, beside cat, which reads the same bytes and does nothing with them?

    scripts/bench/verify.py                        # a seed of gpt2-774m, 2.9 GiB, made and removed; 5 rounds
    scripts/bench/verify.py runs/a/step_000000000040 --rounds 9

They take turns; times are those of whole processes, ours with the start of the program and LibTorch, which is told as well
(`start`, the time of --help). "cached": all files are in memory before; "disk": none is. Prints rows of JSON, the ratio being
the median over rounds of cat's seconds by ours.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def seconds_of(*command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def forget(files):
    """Drop what the system keeps of them in memory."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def measure(program, folder, rounds, is_cached):
    files = sorted(str(file) for file in folder.iterdir())
    contestants = {"verify": (program, "verify", str(folder)), "cat": ("cat", *files), "start": (program, "--help")}
    seconds = {name: [] for name in contestants}
    for i in range(-1, rounds):
        for name, command in contestants.items():
            if not is_cached:
                forget(files)
            taken = seconds_of(*command)
            if i >= 0:  # the first round warms up
                seconds[name].append(taken)
    num_bytes = sum(os.path.getsize(file) for file in files)
    median = {name: statistics.median(each) for name, each in seconds.items()}
    ratios = [cat / verify for cat, verify in zip(seconds["cat"], seconds["verify"])]
    bare = [cat / (verify - start) for cat, verify, start in zip(seconds["cat"], seconds["verify"], seconds["start"])]
    return {"name": "cached" if is_cached else "disk", "bytes": num_bytes, "seconds": round(median["verify"], 3),
            "gb_per_s": round(num_bytes / 1e9 / median["verify"], 2), "limit": "cat", "limit_seconds": round(median["cat"], 3),
            "start": round(median["start"], 3), "ratio_to_limit": round(statistics.median(ratios), 3),
            "ratio_without_start": round(statistics.median(bare), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--program", default=str(ROOT / "build/bin/zero_launch"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    made = None
    if options.folder is None:
        made = tempfile.mkdtemp(prefix="zero_verify_", dir=ROOT / "build")
        subprocess.run([options.program, "seed", "--preset", "gpt2-774m", "--out", made], check=True, stdout=subprocess.DEVNULL)
        options.folder = Path(made) / "step_000000000000"
    try:
        for is_cached in (True, False):
            print(json.dumps(measure(options.program, options.folder, options.rounds, is_cached)), flush=True)
    finally:
        if made:
            shutil.rmtree(made)


main()
