#!/usr/bin/env python3
"""First values by us and by torch, in turn on the same array: first_values.py [ROUNDS], on 1, 2, 4 ... all cores.

`zero_is_faster_by` is the median of the rounds' ratios. Builds what it needs; torch is that of setup.sh. Prints a table in
Markdown.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMEL = 33_333_312  # 127 MiB
# Told to itself, once for each number of threads: a process has one.
CHILD = "ZERO_FIRST_VALUES_LIBRARY"


def places():
    """The Python that has torch, and the build folder."""
    told = subprocess.check_output(["bash", "-c", f'source "{ROOT}/scripts/common.sh"; echo "$zero_venv"; echo "$zero_build"'])
    venv, build = told.decode().split("\n")[:2]
    return Path(venv) / "bin" / "python", Path(build)


def build_library(build, path):
    subprocess.run(["ninja", "-C", str(build), "zero_offload"], check=True, stdout=sys.stderr)
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT}",
                    str(ROOT / "scripts/bench/random_peer.cpp"), "-o", str(path), str(build / "offload/libzero_offload.a"),
                    str(build / "base/libzero_base.a"),
                    "-ltbb", "-lhwloc"], check=True)


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(library, threads, rounds):
    import torch

    torch.set_num_threads(threads)
    array = torch.zeros(NUMEL)

    def ours(name):
        fill = getattr(library, f"zero_{name}")
        return lambda: fill(ctypes.c_void_p(array.data_ptr()), ctypes.c_int64(NUMEL), threads)

    theirs = {"normal": lambda: array.normal_(0, 0.02), "uniform": lambda: array.uniform_(-0.02, 0.02),
              "truncated_normal": lambda: torch.nn.init.trunc_normal_(array, 0, 0.02, -0.04, 0.04)}
    rows = []
    for name, work in theirs.items():
        pairs = [(seconds_of(ours(name)), seconds_of(work)) for _ in range(rounds + 1)][1:]  # the first warms up
        rows.append({"name": name.replace("_", " "), "threads": threads, "values": NUMEL,
                     "seconds": statistics.median(own for own, _ in pairs),
                     "torch_seconds": statistics.median(other for _, other in pairs),
                     "zero_is_faster_by": statistics.median(other / own for own, other in pairs)})
    print(json.dumps(rows))


def main():
    if CHILD in os.environ:
        return measure(ctypes.CDLL(os.environ[CHILD]), int(sys.argv[1]), int(sys.argv[2]))
    python, build = places()
    rounds, cores, rows = sys.argv[1] if len(sys.argv) > 1 else "15", len(os.sched_getaffinity(0)), []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libzero_random_peer.so"
        build_library(build, library)
        # Threads of one contestant that wait must not turn on the cores of the other.
        environment = {**os.environ, CHILD: str(library), "OMP_WAIT_POLICY": "passive"}
        threads = sorted({cores, *(1 << i for i in range(cores.bit_length()) if 1 << i <= cores)})
        for number in threads:
            rows += json.loads(subprocess.check_output([python, __file__, str(number), rounds], env=environment))
    subprocess.run([sys.executable, ROOT / "scripts/bench/tables.py"], input=json.dumps(rows), text=True, check=True)


main()
