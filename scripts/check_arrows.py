#!/usr/bin/env python3
"""Do includes go one way? Each room of the house has a list of what it may include; this reads them all and tells.

    scripts/check_arrows.py                 # the tree that holds this script
    scripts/check_arrows.py --self-test     # would a wrong include be noticed?
"""

import re
import tempfile
from pathlib import Path

from house import FLOORS, read, run

# Who may include whom, floor by floor. The longest name that a file's path begins with is its room. A room may include
# itself and what begins with a name behind it, which is never a room further down.
LOW = ["base/", "engine/include/", "offload/"]
MIDDLE = [*LOW, "engine/comm/", "engine/device/", "engine/plan/", "engine/watch/"]
PASSES = [f"engine/layers/{name}.h"  # of layers
          for name in ("cross_entropy_pass", "element_pass", "gpu_passes", "norm_pass", "rotate_pass")]
ROOMS = {
    "base/": [],
    "offload/": ["base/"],
    "checkpoint/": ["base/"],
    "engine/include/": ["base/", "offload/"],  # what users include: "zero/engine.h"
    "engine/layers/": LOW,
    "engine/watch/": LOW,
    "engine/plan/": LOW,
    "engine/device/": [*LOW, *PASSES, "engine/watch/"],
    "engine/layers/torch/": [*LOW, "engine/device/", "engine/layers/"],
    "engine/comm/": [*LOW, "engine/device/", "engine/plan/", "engine/watch/"],
    "engine/weights/": MIDDLE,
    "engine/step/": [*MIDDLE, "engine/weights/"],
    "engine/unit/": [*MIDDLE, "engine/layers/", "engine/step/", "engine/weights/"],
    "engine/options/": [*MIDDLE, "engine/unit/"],
    "engine/init/": [*MIDDLE, "engine/unit/", "engine/weights/"],
    "engine/save/": [*MIDDLE, "checkpoint/", "engine/init/", "engine/step/", "engine/unit/", "engine/weights/"],
    "engine/": ["base/", "engine/", "offload/"],  # the sources of Engine
    "launcher/": ["base/", "checkpoint/", "engine/", "offload/"],
    "examples/": ["base/", "checkpoint/", "engine/", "launcher/model.h", "launcher/run_log.h"],
    "examples/custom_model/language_model.cpp": ["engine/", "launcher/launch.h"],  # programs
    "examples/mixture_of_experts/": ["engine/", "launcher/launch.h"],
    "launcher/program.cpp": ["examples/", "launcher/launch.h"],  # the composition root
}

# Where LibTorch is at home: in rooms of its own and, of other rooms, in a folder torch/. What else is in these floors
# reaches it by no way, so that it, and its tests, compile in seconds.
TORCH = ["engine/include/zero/batch_norm.h", "engine/include/zero/key_values.h", "engine/include/zero/linear.h",
         "engine/include/zero/unit.h", "engine/include/zero/visit_tensors.h",
         "engine/include/zero/wrap.h", "engine/init/", "engine/save/", "engine/unit/", "examples/", "launcher/program.cpp"]
TORCH_FOLDER = re.compile(r"engine/[^/]+|(engine|launcher)/.+/torch/.+")  # in the hall, or of a room
WITHOUT_TORCH = ["base/", "checkpoint/", "engine/", "launcher/", "offload/"]

# Where the headers of a library may be included, by what their names begin with.
HOMES = {
    "tbb/": ["offload/"],
    "hwloc.h": ["offload/"],
    "hdf5.h": ["checkpoint/"],
    "xxhash.h": ["base/"],
    "xxh_x86dispatch.h": ["base/"],
    "zlib.h": ["checkpoint/"],
    "nlohmann/": ["checkpoint/", "examples/", "launcher/"],
    "mpi.h": ["engine/comm/mpi/"],
    "nccl.h": ["engine/comm/nccl/"],
    "cuda": ["engine/device/cuda/"],
    "nvtx3/": ["engine/device/cuda/"],
    "fmt/": ["launcher/"],
    "jerror.h": ["launcher/data/images/"],
    "jpeglib.h": ["launcher/data/images/"],
    "png.h": ["launcher/data/images/"],
    "toml++/": ["launcher/settings/"],
    "sanitizer/": ["offload/happens_before.h"],
}
TORCH_HEADERS = ("torch/", "ATen/", "c10/")

# Where CUDA is spoken of; elsewhere these floors say GPU, but in names that users know and in messages.
CUDA_HOMES = ["base/host_device.h", "engine/comm/", "engine/device/", "engine/step/cuda/"]
WITHOUT_CUDA = ["base/", "checkpoint/", "engine/", "offload/"]
CUDA = re.compile(r"\w*cuda\w*", re.IGNORECASE)
MESSAGE = re.compile(r'"(?:[^"\\\n]|\\.)*"')
OF_USERS = {"CUDA_VISIBLE_DEVICES", "kCuda"}

# The system's, beside all of sys/ and linux/ and what has neither a folder nor a ".h".
SYSTEM = {"cpuid.h", "dirent.h", "dlfcn.h", "emmintrin.h", "fcntl.h", "immintrin.h", "limits.h", "malloc.h", "netdb.h", "poll.h",
          "pthread.h", "sched.h", "signal.h", "stdio.h", "termios.h", "time.h", "unistd.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def begins(path, names):
    return any(path.startswith(name) for name in names)


def longest(path, names):
    return max((name for name in names if path.startswith(name)), key=len, default=None)


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
    if not begins(name, FLOORS):
        return "is not of the house"
    if longest(name, ROOMS) == room or begins(name, ROOMS[room]):
        return ""
    return f"does not belong below {room}"


def is_torch(path):
    return begins(path, TORCH) or TORCH_FOLDER.fullmatch(path)


def problem_of_library(path, name):
    if begins(name, ("sys/", "linux/")) or name in SYSTEM or not re.search(r"[/.]", name):
        return ""
    if begins(name, TORCH_HEADERS):
        return "" if is_torch(path) else "does not belong outside torch's rooms"
    library = longest(name, HOMES)
    if library is None:
        return "is of a library without a home"
    return "" if begins(path, HOMES[library]) else f"has its home in {', '.join(HOMES[library])}"


def way_to_torch(path, includes, seen):
    """The files between a source and torch, or nothing."""
    seen.add(path)
    for mark, name in includes.get(path, []):
        if mark == "<" and begins(name, TORCH_HEADERS):
            return [path, f"<{name}>"]
        if mark == '"' and name not in seen and (way := way_to_torch(name, includes, seen)):
            return [path, *way]
    return []


def problems_of(root):
    sources = read(root)
    includes = {path: [('"', "engine/include/" + name) if name.startswith("zero/") else (mark, name)
                       for mark, name in INCLUDE.findall(text)] for path, text in sources.items()}
    problems = [*stairs_up(), *([] if sources else [f"no sources in {root}"])]
    for path, text in sources.items():
        for mark, name in includes[path]:
            if problem := (problem_of_library if mark == "<" else problem_of_ours)(path, name):
                problems.append(f"{path}: {name} {problem}")
        if begins(path, WITHOUT_TORCH) and not is_torch(path) and len(way := way_to_torch(path, includes, set())) > 2:
            problems.append(f"{path} reaches torch: {' -> '.join(way)}")
        if begins(path, WITHOUT_CUDA) and not begins(path, CUDA_HOMES) and (
                words := {*CUDA.findall(MESSAGE.sub("", text))} - OF_USERS):
            problems.append(f"{path} speaks of {', '.join(sorted(words))}: CUDA has its home in {', '.join(CUDA_HOMES)}")
    return problems


def self_test():
    """Trees of a file or two, and what must be said of them."""
    cases = {
        "": {"offload/adam.cpp": '#include "offload/adam.h"\n#include <tbb/parallel_for.h>\n#include <vector>',
             "engine/save/load.cpp": '#include "checkpoint/reader.h"\n#include <torch/torch.h>\n#include <sys/stat.h>',
             "engine/step/torch/pass.cpp": '#include "zero/unit.h"\n#include <ATen/ATen.h>',
             "engine/device/cuda/stream.cpp": "#include <cuda_runtime_api.h>\ncudaStream_t stream;",
             "engine/options/check.cpp": 'refuse(kCuda, "leave out \\"--device\\" cuda");',
             "examples/custom_model/main.cpp": "#include <zero/engine.h>",
             "launcher/program.cpp": '#include "examples/models/families.h"\n#include "launcher/launch.h"'},
        "base/hash.h: offload/adam.h does not belong below base/": {"base/hash.h": '#include "offload/adam.h"'},
        "offload/adam.h: engine/include/zero/errors.h does not belong below offload/": {
            "offload/adam.h": '#include "zero/errors.h"'},
        "checkpoint/reader.h: offload/adam.h does not belong below checkpoint/": {
            "checkpoint/reader.h": '  #  include "offload/adam.h"'},
        "engine/comm/ranks.cpp: checkpoint/error.h does not belong below engine/comm/": {
            "engine/comm/ranks.cpp": '#include "checkpoint/error.h"'},
        "engine/plan/memory.h: engine/engine_impl.h does not belong below engine/plan/": {
            "engine/plan/memory.h": '#include "engine/engine_impl.h"'},
        "launcher/launch.cpp: examples/models/gpt2.h does not belong below launcher/": {
            "launcher/launch.cpp": '#include "examples/models/gpt2.h"'},
        "engine/unit/call.cpp: tests/engine/training.h is not of the house": {
            "engine/unit/call.cpp": '#include "tests/engine/training.h"'},
        "engine/device/stream.cpp: mpi.h has its home in engine/comm/mpi/": {"engine/device/stream.cpp": "#include <mpi.h>"},
        "engine/step/adam.cpp: boost/any.hpp is of a library without a home": {"engine/step/adam.cpp": "#include <boost/any.hpp>"},
        "launcher/page.cpp: torch/torch.h does not belong outside torch's rooms": {
            "launcher/page.cpp": "#include <torch/torch.h>"},
        "launcher/model.h reaches torch: launcher/model.h -> engine/include/zero/unit.h -> <torch/torch.h>": {
            "launcher/model.h": '#include "zero/unit.h"', "engine/include/zero/unit.h": "#include <torch/torch.h>"},
        "engine/unit/call.cpp speaks of cuda_index, kCUDA: CUDA has its home in " + ", ".join(CUDA_HOMES): {
            "engine/unit/call.cpp": 'device(c10::kCUDA, cuda_index());  // not "cuda"'},
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
    run(problems_of, self_test)
