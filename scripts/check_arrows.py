#!/usr/bin/env python3
"""Do includes go one way? Each room of the house has a list of what it may include; this reads them all and tells.

    scripts/check_arrows.py                 # the tree that holds this script
    scripts/check_arrows.py --self-test     # would a wrong include be noticed?
"""

import re
import sys
import tempfile
from pathlib import Path

# Who may include whom, floor by floor. The longest name that a file's path begins with is its room. A room may include
# itself and what begins with a name behind it, which is never a room further down.
ROOMS = {
    "offload/": [],
    "checkpoint/": [],
    # What everybody in the engine needs, and the values that options are made of.
    "engine/errors.h": [],
    "engine/stream_seconds.h": [],
    "engine/trace": [],
    "engine/traffic.h": [],
    "engine/activity": ["engine/trace"],
    "engine/init/init_functions.h": [],
    "engine/init/init_report.h": [],
    "engine/init/init_spec": ["engine/errors.h", "offload/philox.h", "offload/random.h"],
    "engine/step/loss_scale": ["engine/errors.h"],
    "engine/step/lr_schedule": ["engine/errors.h"],
    "engine/options.h": ["checkpoint/dtype.h", "engine/init/init_functions.h", "engine/init/init_spec", "engine/step/loss_scale",
                         "engine/step/lr_schedule", "offload/optimizer", "offload/exact_sum.h"],
    # Rooms without torch.
    "engine/plan/": ["checkpoint/", "engine/errors.h", "engine/options.h", "engine/traffic.h"],
    "engine/device/": ["engine/errors.h", "engine/stream_seconds.h", "engine/trace"],
    "engine/device/cuda/": ["checkpoint/dtype.h", "engine/device/", "engine/errors.h", "engine/trace", "offload/"],
    "engine/comm/": ["checkpoint/", "engine/activity", "engine/device/", "engine/errors.h"],
    # Parts of the engine that know nothing of the whole.
    "engine/compute_type": ["checkpoint/dtype.h"],
    "engine/chunked_loss": ["engine/errors.h"],
    "engine/visit_tensors.h": [],
    "engine/unit.h": ["engine/visit_tensors.h"],
    "engine/model_scan": ["engine/errors.h", "engine/plan/", "engine/unit.h"],
    "engine/flat_params": ["engine/plan/"],
    "engine/shard_store": ["checkpoint/dtype.h", "engine/device/", "engine/plan/", "offload/"],
    "engine/gather_ring": ["engine/comm/", "engine/device/", "engine/errors.h", "engine/plan/slot_plan"],
    "engine/weight_streamer": ["engine/compute_type", "engine/flat_params", "engine/gather_ring", "engine/plan/",
                               "engine/shard_store"],
    "engine/init/": ["checkpoint/", "engine/activity", "engine/comm/", "engine/errors.h", "engine/init/init_functions.h",
                     "engine/init/init_report.h", "engine/init/init_spec",
                     "engine/flat_params", "engine/model_scan", "engine/options.h", "engine/plan/", "engine/shard_store", "offload/"],
    "engine/step/": ["checkpoint/dtype.h", "engine/activity", "engine/comm/", "engine/compute_type", "engine/device/", "engine/errors.h",
                     "engine/options.h", "engine/plan/", "engine/shard_store", "engine/step/lr_schedule",
                     "engine/trace", "engine/weight_streamer", "offload/"],
    "engine/": ["checkpoint/", "engine/", "offload/"],
    "launcher/": ["checkpoint/", "engine/", "offload/"],
    "examples/": ["checkpoint/", "engine/", "launcher/model.h"],
    "launcher/program.cpp": ["examples/", "launcher/launch.h"],  # the composition root
}

# Where the headers of a library may be included, by what their names begin with.
HOMES = {
    "tbb/": ["offload/"],
    "hwloc.h": ["offload/"],
    "hdf5.h": ["checkpoint/"],
    "xxhash.h": ["checkpoint/", "launcher/data/"],
    "nlohmann/": ["checkpoint/", "examples/", "launcher/"],
    "mpi.h": ["engine/comm/"],
    "nccl.h": ["engine/comm/nccl/"],
    "cuda": ["engine/device/cuda/"],
    "nvtx3/": ["engine/device/cuda/"],
    "torch/": ["engine/", "examples/", "launcher/bench/plain_loop.cpp", "launcher/doctor/torch_version.cpp", "launcher/process/process_setup.cpp",
               "launcher/process/runner.cpp"],
    "fmt/": ["launcher/"],
    "toml++/": ["launcher/settings/"],
    "sanitizer/": ["offload/happens_before.h"],
}
SAME = {"ATen/": "torch/", "c10/": "torch/"}

# These reach torch by no way at all: they, and their tests, compile in seconds.
WITHOUT_TORCH = ["engine/plan/", "engine/device/", "engine/comm/", "engine/errors.h", "engine/activity", "engine/trace",
                 "engine/gather_ring", "engine/options.h", "engine/init/init_spec",
                 "engine/step/loss_scale", "engine/step/lr_schedule", "engine/chunked_loss.h", "engine/engine.h",
                 "launcher/settings/", "launcher/data/", "launcher/model.h"]

# The system's, beside all of sys/ and linux/ and what has neither a folder nor a ".h".
SYSTEM = {"cpuid.h", "dirent.h", "dlfcn.h", "emmintrin.h", "fcntl.h", "immintrin.h", "limits.h", "malloc.h", "pthread.h", "sched.h",
          "signal.h", "stdio.h", "time.h", "unistd.h"}

HOUSE = ("offload/", "checkpoint/", "engine/", "launcher/", "examples/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def begins(path, names):
    return any(path.startswith(name) for name in names)


def longest(path, names):
    return max((name for name in names if path.startswith(name)), key=len, default=None)


def read(root):
    """Of each source: its includes, as pairs of '<' or '"' and a name."""
    sources = {}
    for floor in HOUSE:
        for path in sorted((root / floor).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu"):
                sources[str(path.relative_to(root))] = INCLUDE.findall(path.read_text())
    return sources


def stairs_up():
    """Lines of ROOMS that name a room further down."""
    order = list(ROOMS)
    for room, names in ROOMS.items():
        for name in names:
            named = {longest(name, ROOMS), *(other for other in ROOMS if other.startswith(name))}
            if any(order.index(other) > order.index(room) for other in named):
                yield f"ROOMS: {room} names {name}, which is further down"


def problem_of_ours(path, name):
    room = longest(path, ROOMS)
    if not begins(name, HOUSE):
        return "is not of the house"
    if longest(name, ROOMS) == room or begins(name, ROOMS[room]):
        return ""
    return f"does not belong below {room}"


def problem_of_library(path, name):
    if begins(name, ("sys/", "linux/")) or name in SYSTEM or not re.search(r"[/.]", name):
        return ""
    library = longest(name, [*HOMES, *SAME])
    if library is None:
        return "is of a library without a home"
    homes = HOMES[SAME.get(library, library)]
    return "" if begins(path, homes) else f"has its home in {', '.join(homes)}"


def way_to_torch(path, sources, seen):
    """The files between a source and torch, or nothing."""
    seen.add(path)
    for mark, name in sources.get(path, []):
        if mark == "<" and begins(name, ("torch/", *SAME)):
            return [path, f"<{name}>"]
        if mark == '"' and name not in seen and (way := way_to_torch(name, sources, seen)):
            return [path, *way]
    return []


def problems_of(root):
    sources = read(root)
    problems = [*stairs_up(), *([] if sources else [f"no sources in {root}"])]
    for path, includes in sources.items():
        for mark, name in includes:
            if problem := (problem_of_library if mark == "<" else problem_of_ours)(path, name):
                problems.append(f"{path}: {name} {problem}")
        if begins(path, WITHOUT_TORCH) and (way := way_to_torch(path, sources, set())):
            problems.append(f"{path} reaches torch: {' -> '.join(way)}")
    return problems


def self_test():
    """Trees of a file or two, and what must be said of them."""
    cases = {
        "": {"offload/adam.cpp": '#include "offload/adam.h"\n#include <tbb/parallel_for.h>\n#include <vector>',
             "engine/engine.cpp": '#include "checkpoint/reader.h"\n#include <torch/torch.h>\n#include <sys/stat.h>',
             "launcher/program.cpp": '#include "examples/models/families.h"\n#include "launcher/launch.h"'},
        "offload/adam.h: engine/errors.h does not belong below offload/": {
            "offload/adam.h": '#include "engine/errors.h"'},
        "checkpoint/reader.h: offload/bf16.h does not belong below checkpoint/": {
            "checkpoint/reader.h": '  #  include "offload/bf16.h"'},
        "engine/plan/memory.h: engine/engine.h does not belong below engine/plan/": {
            "engine/plan/memory.h": '#include "engine/engine.h"'},
        "engine/engine.cpp: launcher/model.h does not belong below engine/": {
            "engine/engine.cpp": '#include "launcher/model.h"'},
        "launcher/launch.cpp: examples/models/gpt2.h does not belong below launcher/": {
            "launcher/launch.cpp": '#include "examples/models/gpt2.h"'},
        "engine/unit.cpp: tests/engine/training.h is not of the house": {
            "engine/unit.cpp": '#include "tests/engine/training.h"'},
        "engine/device/stream.cpp: mpi.h has its home in engine/comm/": {
            "engine/device/stream.cpp": "#include <mpi.h>"},
        "engine/step/optimizer.cpp: boost/any.hpp is of a library without a home": {
            "engine/step/optimizer.cpp": "#include <boost/any.hpp>"},
        "launcher/model.h reaches torch: launcher/model.h -> engine/unit.h -> <torch/torch.h>": {
            "launcher/model.h": '#include "engine/unit.h"', "engine/unit.h": "#include <torch/torch.h>"},
    }
    failures = []
    for expected, tree in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text(text)
            found = problems_of(Path(folder))
        if found != ([expected] if expected else []):
            failures.append(f"self-test: expected '{expected}', found {found}")
    with tempfile.TemporaryDirectory() as folder:
        if not problems_of(Path(folder)):
            failures.append("self-test: an empty tree passes")
    return failures


if __name__ == "__main__":
    problems = self_test() if sys.argv[1:] == ["--self-test"] else problems_of(Path(__file__).resolve().parent.parent)
    for line in problems:
        print(line, file=sys.stderr)
    sys.exit(1 if problems else 0)
