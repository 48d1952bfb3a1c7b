#!/usr/bin/env python3
"""How others save and load as many bytes of masters and moments, on as many ranks, as `zero_launch bench` does.

    torchrun --nproc-per-node 2 scripts/bench/save_peers.py dcp --bytes 1485020160     # torch.distributed.checkpoint
    python3 scripts/bench/save_peers.py torch|h5py --bytes 1485020160                  # torch.save, h5py; one process
    python3 scripts/bench/save_peers.py zero --ranks 2                                 # ours, of gpt2-124m, in the same row

Every file and its folder is synced. A load reads into memory that is there and was touched; the system is told before to
forget the files. "lost" is what steps (products of matrices on one thread) take longer beside dcp.async_save than alone, its
call included. Prints one row of JSON: medians over --rounds. scripts/bench.sh checkpoint runs it.
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

PROGRAM = os.environ.get("ZERO_PROGRAM", Path(__file__).resolve().parents[2] / "build/bin/zero_launch")
NUM_TENSORS = 36  # of a rank: masters and two moments of a block's twelve tensors


def seconds_of(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def forget(folder):
    for file in Path(folder).rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class TorchSave:
    def __init__(self, num_bytes, folder):
        import torch
        torch.set_num_threads(1)
        self.torch, self.file = torch, Path(folder) / "state.pt"
        self.state = {f"t{i}": torch.rand(num_bytes // 4 // NUM_TENSORS) for i in range(NUM_TENSORS)}

    def save(self):
        self.torch.save(self.state, self.file)
        sync(self.file)
        sync(self.file.parent)

    def load(self):
        loaded = self.torch.load(self.file, mmap=True, weights_only=True)
        for name, tensor in self.state.items():
            tensor.copy_(loaded[name])


class H5py:
    def __init__(self, num_bytes, folder):
        import h5py
        import numpy
        self.h5py, self.file = h5py, Path(folder) / "state.h5"
        self.state = {f"t{i}": numpy.random.rand(num_bytes // 4 // NUM_TENSORS).astype("f4") for i in range(NUM_TENSORS)}

    def save(self):
        with self.h5py.File(self.file, "w") as file:
            for name, values in self.state.items():
                file.create_dataset(name, data=values)
        sync(self.file)
        sync(self.file.parent)

    def load(self):
        with self.h5py.File(self.file, "r") as file:
            for name, values in self.state.items():
                file[name].read_direct(values)


class Dcp:
    def __init__(self, num_bytes, folder):
        import torch
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.torch, self.dist, self.dcp = torch, dist, dcp
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        names = [folder]
        dist.broadcast_object_list(names)
        self.folder = Path(names[0]) / "state"
        numel = num_bytes // 4 // NUM_TENSORS // self.ranks
        self.state = {f"r{self.rank}.t{i}": torch.rand(numel) for i in range(NUM_TENSORS)}
        self.square = torch.rand(1024, 1024)

    def begin(self):
        self.dist.barrier()
        if self.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.dist.barrier()

    def writer(self):
        return self.dcp.FileSystemWriter(self.folder, sync_files=True, thread_count=1)

    def save(self):
        self.dcp.save(self.state, storage_writer=self.writer())

    def load(self):
        self.dcp.load(self.state, storage_reader=self.dcp.FileSystemReader(self.folder))

    def steps(self, count):
        for _ in range(count):
            self.square @ self.square

    def lost(self, save_seconds):
        count = int(2 * save_seconds / (seconds_of(lambda: self.steps(20)) / 20)) + 1
        alone = seconds_of(lambda: self.steps(count))
        self.begin()

        def beside():
            self.future = self.dcp.async_save(self.state, storage_writer=self.writer())
            self.steps(count)

        taken = seconds_of(beside)
        self.future.result()
        return taken - alone


def row_of_ours(options):
    """What `zero_launch bench` measures of the same."""
    def bench(*words):
        words = (PROGRAM, "bench", *words, "--out", options.folder, "--rounds", "1", "--json")
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    ranks = str(options.ranks)
    waits, beside = bench("saves", "--preset", "gpt2-124m", "--seq-len", "128", "--ranks", ranks)
    loads = bench("checkpoint", "--size", str(waits["bytes"]), "--ranks", ranks)
    load = next(row for row in loads if (row["name"], row["cache"]) == ("load", "cold"))
    return {"name": "zero", "ranks": options.ranks, "bytes": waits["bytes"], "save_seconds": waits["seconds"],
            "load_seconds": load["seconds"], "lost_seconds": beside["lost_seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=("torch", "h5py", "dcp", "zero"))
    parser.add_argument("--bytes", type=int, default=512 << 20, help="of all ranks")
    parser.add_argument("--folder", default="/tmp", help="where a folder is made for the files, and removed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1, help="of zero; dcp has torchrun's")
    options = parser.parse_args()
    if options.peer == "zero":
        return print(json.dumps([row_of_ours(options)]))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        peer = {"torch": TorchSave, "h5py": H5py, "dcp": Dcp}[options.peer](options.bytes, folder)
        saves, loads, lost = [], [], []
        for i in range(-1, options.rounds):  # the first round warms up
            if options.peer == "dcp":
                peer.begin()
            save = seconds_of(peer.save)
            forget(peer.folder if options.peer == "dcp" else folder)
            load = seconds_of(peer.load)
            if options.peer == "dcp":
                lost += [peer.lost(save)] if i >= 0 else []
            if i >= 0:
                saves, loads = saves + [save], loads + [load]
        row = {"name": options.peer, "ranks": getattr(peer, "ranks", 1), "bytes": options.bytes,
               "save_seconds": statistics.median(saves), "load_seconds": statistics.median(loads)}
        if lost:
            row["lost_seconds"] = statistics.median(lost)
        if getattr(peer, "rank", 0) == 0:
            print(json.dumps([row]))
        if options.peer == "dcp":
            peer.dist.barrier()
            peer.dist.destroy_process_group()


if __name__ == "__main__":
    main()
