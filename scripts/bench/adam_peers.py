"""One whole update of the same arrays by all who can be had, in turn: adam_peers.py LIBRARY THREADS ROUNDS.

Gradients come in bf16 and have a factor (clipping, loss scale); fp32 masters and moments are updated; a copy in bf16 goes
out. What a kernel does not do itself is a pass around it, by torch. Prints rows like those of `zero_launch bench --json`.
"""

import ctypes
import json
import statistics
import sys
import time

import torch

NUMEL = 33_333_312  # 127 MiB in fp32, four times the last cache of most machines, and no power of two, which slows memory
FACTOR = 0.5


class Arrays:
    def __init__(self):
        torch.manual_seed(0)
        self.grad = torch.randn(NUMEL).mul_(0.01).bfloat16()
        self.grad_fp32 = torch.zeros(NUMEL)
        self.master = torch.nn.Parameter(torch.randn(NUMEL).mul_(0.02))
        self.exp_avg, self.exp_avg_sq = torch.zeros(NUMEL), torch.zeros(NUMEL)
        self.copy = torch.zeros(NUMEL, dtype=torch.bfloat16)
        self.master.grad = self.grad_fp32

    def pointers(self, *names):
        return [ctypes.c_void_p(getattr(self, name).data_ptr()) for name in names]


def ours(arrays, library, threads):
    steps = 0

    def update():
        nonlocal steps
        steps += 1
        library.zero_update(*arrays.pointers("grad", "master", "exp_avg", "exp_avg_sq", "copy"), ctypes.c_int64(NUMEL),
                            ctypes.c_int64(steps), ctypes.c_float(FACTOR), threads)

    return update


def limit(arrays, library, threads):
    return lambda: library.zero_sweep(*arrays.pointers("grad_fp32", "master", "exp_avg", "exp_avg_sq"),
                                      ctypes.c_int64(NUMEL), threads)


def with_passes(arrays, optimizer):
    """An optimizer that reads an fp32 gradient and writes fp32 masters, between a cast, a scale and a copy."""

    def update():
        arrays.grad_fp32.copy_(arrays.grad)
        arrays.grad_fp32.mul_(FACTOR)
        optimizer.step()
        arrays.copy.copy_(arrays.master.detach())

    return update


def use_arrays_of(optimizer, arrays):
    """Moments that exist already, so that all contestants work on the same memory."""
    state = optimizer.state[arrays.master]
    state.update(exp_avg=arrays.exp_avg, exp_avg_sq=arrays.exp_avg_sq)
    return state


def torch_fused(arrays):
    optimizer = torch.optim.AdamW([arrays.master], lr=1e-4, fused=True)
    use_arrays_of(optimizer, arrays)["step"] = torch.zeros(())
    return with_passes(arrays, optimizer)


def deepspeed(arrays):
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    optimizer = DeepSpeedCPUAdam([arrays.master], lr=1e-4, adamw_mode=True)
    use_arrays_of(optimizer, arrays)["step"] = 0
    return with_passes(arrays, optimizer)


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    library, threads, rounds = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    arrays = Arrays()
    contestants = {"sweep": limit(arrays, library, threads), "zero": ours(arrays, library, threads),
                   "torch fused AdamW": torch_fused(arrays)}
    try:
        contestants["DeepSpeed CPUAdam"] = deepspeed(arrays)
    except Exception as error:  # not installed, or its extension cannot be built
        print(f"skipped: DeepSpeed CPUAdam: {str(error).splitlines()[0]}", file=sys.stderr)
    print("skipped: prime-rl's kernel: no package has it", file=sys.stderr)
    seconds = {name: [] for name in contestants}
    names = list(contestants)
    for round in range(-1, rounds):
        names.append(names.pop(0))  # each one comes behind each other one: what that left behind is shared
        for name in names:
            taken = seconds_of(contestants[name])
            if round >= 0:
                seconds[name].append(taken)

    def ratio(name, other):
        return statistics.median(b / a for a, b in zip(seconds[name], seconds[other]))

    print(json.dumps([{"name": name, "threads": threads, "parameters": NUMEL, "seconds": statistics.median(seconds[name]),
                       "limit": "sweep", "ratio_to_limit": ratio(name, "sweep"), "zero_is_faster_by": ratio("zero", name)}
                      for name in contestants if name != "sweep"]))


main()
