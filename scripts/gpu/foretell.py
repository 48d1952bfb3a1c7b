#!/usr/bin/env python3
"""Foretell the seconds of a training step on one GPU, by arithmetic: what each lane does, and what it waits for.

    scripts/gpu/foretell.py --tokens 32768                      # Llama 2 7B, each place of weights and states
    scripts/gpu/foretell.py --tokens 131072 --passes 16 --accumulate unit --adam 100e9
    scripts/gpu/foretell.py --self-test

Speeds are in bytes or operations a second, as `zero_launch bench transfer` and `bench adam` (times 10^9) and a product of large
bf16 matrices measure them. The lanes and edges are those of engine/README.md, "The schedule of a step on a GPU": of one rank
that computes in bf16. What scripts/gpu_check.sh measures stands beside what this foretells.
"""
import argparse
import dataclasses
from dataclasses import dataclass

# What --offload and --device-state-fraction say.
WAYS = {"none": ("none", 0.0), "half": ("all", 0.5), "optimizer": ("optimizer", 0.0), "all": ("all", 0.0)}
REACHED = 0.65  # of a plain product's speed, by a model's layers: a guess, until it was measured
OF_SUM = 12  # bytes of a parameter, as `bench adam` counts them: two gradients are read, one is written


@dataclass
class Machine:
    flops: float = 420e12    # of products, as the layers of a model reach them
    hbm: float = 4e12        # bytes a second of the GPU's memory
    to_gpu: float = 52e9     # of copies between pinned memory and the GPU, while both directions work
    from_gpu: float = 52e9
    adam: float = 150e9      # of the host's update
    sum: float = 140e9       # of the host's addition of gradients


@dataclass
class Model:
    layers: int = 32
    dim: int = 4096
    ffn_dim: int = 11008
    kv_dim: int = 4096       # of keys, and of values
    vocab: int = 32000
    matrices: int = 3        # of the feed-forward layer: 2 in GPT-2, 3 with a gate
    tied: int = 0            # 1: the head is the embedding, and both are a part of the root

    def layer_numel(self):
        return 2 * self.dim * (self.dim + self.kv_dim) + self.matrices * self.dim * self.ffn_dim

    def numel(self):
        return self.layers * self.layer_numel() + (1 if self.tied else 2) * self.dim * self.vocab


@dataclass
class Run:
    tokens: int = 32768            # of a step
    passes: int = 1                # through the model, or of each unit
    seq_len: int = 4096
    accumulate: str = "model"      # or "unit": weights come once a step
    recompute: int = 1             # 0: activations are kept
    offload: str = "all"
    fraction: float = 0.0          # of the parameters, whose states are on the GPU
    sums: str = "host"             # where several passes are added up; or "device"
    gradient_bytes: int = 0        # of a parameter, on its way to the host; 0: of bf16 as autograd makes it, of sums fp32
    update_bytes: int = 26         # that the host's update moves for a parameter beside its gradient
    speculate: float = 0.0         # of the parameters, in units that are updated as soon as their gradient is there; nothing is clipped


@dataclass
class Unit:
    numel: float
    forward: float           # operations of a step
    backward: float          # the same, recomputation included
    home: str = "all"        # as --offload
    has_draft: bool = False


def units_of(model, run):
    """In the order of a forward; the last one is the head, which has no weights of its own where it is tied."""
    layer = model.layer_numel()
    head = model.dim * model.vocab
    attention = 2 * run.seq_len * model.dim  # a causal half, two products
    layer_work = run.tokens * (2 * layer + attention)
    head_work = run.tokens * 2 * head
    units = [Unit(head, 0, 0)]
    units += [Unit(layer, layer_work, (2 + run.recompute) * layer_work) for _ in range(model.layers)]
    units += [Unit(0 if model.tied else head, head_work, 2 * head_work)]
    total = sum(unit.numel for unit in units)
    kept, drafted = run.fraction * total, run.speculate * total  # what is left of them
    for unit in units:
        if unit.numel <= kept:
            unit.home, kept = "none", kept - unit.numel
        else:
            unit.home = run.offload
        if unit.home != "none" and unit.numel <= drafted * 1.0001:
            unit.has_draft, drafted = unit.numel > 0, drafted - unit.numel
    return units


class Lane:
    """Does one thing after the other."""

    def __init__(self):
        self.free = 0.0

    def do(self, seconds, *after):
        self.free = max([self.free, *after]) + seconds
        return self.free


class Steps:
    """Lanes, and since when each unit's weights are new."""

    SLOTS = 2  # of the gather ring, and of the gradient ring

    def __init__(self, machine, model, run):
        self.machine, self.run, self.units = machine, run, units_of(model, run)
        self.is_tied = model.tied
        self.rounds = 1 if run.accumulate == "unit" else run.passes
        self.compute, self.to_gpu, self.from_gpu = Lane(), Lane(), Lane()
        self.sums, self.updates, self.kernels = Lane(), Lane(), Lane()
        self.new = [0.0] * len(self.units)
        self.is_whole = self.rounds == 1  # one round makes the gradient
        is_as_made = run.passes == 1 or not self.is_whole and run.sums == "host"
        self.gradient_bytes = run.gradient_bytes or (2 if is_as_made else 4)

    def gather(self, i, after):
        """When the weights of a unit are in the GPU's memory."""
        unit = self.units[i]
        if unit.home != "all" or unit.numel == 0:
            return self.new[i]
        return self.to_gpu.do(2 * unit.numel / self.machine.to_gpu, after, self.new[i])

    def go_through(self, order, operations, ready, after_unit=None):
        """Computes units in this order; those in `ready` are gathered already."""
        done = []
        for k, i in enumerate(order):
            if i not in ready:
                ready[i] = self.gather(i, done[k - self.SLOTS] if k >= self.SLOTS else self.compute.free)
            done.append(self.compute.do(operations(self.units[i]) / self.rounds / self.machine.flops, ready[i]))
            if after_unit:
                after_unit(i)

    def reduce(self, i, is_last):
        """The gradient of one round is laid out and copied to the host, where several are added; or added where it is."""
        unit, run, machine = self.units[i], self.run, self.machine
        if unit.numel == 0:
            return
        extra = run.passes // self.rounds - 1  # summed on the GPU, by autograd
        self.compute.do(extra * unit.numel * 10 / machine.hbm)
        stays = not self.is_whole and run.sums == "device"
        if unit.home == "none" or stays:
            self.compute.do(unit.numel * 10 / machine.hbm)
        if unit.home == "none" or stays and not is_last:
            return
        slot = self.num_reduced % self.SLOTS
        self.num_reduced += 1
        laid_out = self.compute.do(unit.numel * (2 + 2 * self.gradient_bytes) / machine.hbm, self.left[slot])  # and its norm
        self.left[slot] = self.from_gpu.do(self.gradient_bytes * unit.numel / machine.from_gpu, laid_out)
        if not self.is_whole and not stays:  # in small pieces: a copy ends with its addition
            self.left[slot] = self.from_gpu.do(0, self.sums.do(OF_SUM * unit.numel / machine.sum, laid_out))
        if is_last and unit.has_draft:
            self.update(i, self.left[slot])

    def update(self, i, after):
        unit = self.units[i]
        if unit.home == "none":
            self.new[i] = self.kernels.do((self.run.update_bytes + 4) * unit.numel / self.machine.hbm, after)
            return
        is_sum_of_host = not self.is_whole and self.run.sums == "host"
        moved = self.run.update_bytes + (12 if unit.has_draft else 0)  # drafts are so much slower, as an H200's host showed
        moved += (4 if is_sum_of_host else self.gradient_bytes)
        self.new[i] = self.updates.do(moved * unit.numel / self.machine.adam, after)
        if unit.home == "optimizer":
            self.new[i] = self.to_gpu.do(2 * unit.numel / self.machine.to_gpu, self.new[i])

    def step(self):
        """Returns when it has ended: the updates may still be on their way."""
        order = list(range(len(self.units)))
        self.num_reduced, self.left = 0, [0.0] * self.SLOTS
        for r in range(self.rounds):
            ready = {0: ready[0]} if r > 0 and self.is_tied else {}
            self.go_through(order, lambda unit: unit.forward, ready)
            kept = set(order[-self.SLOTS:]) | ({0} if self.is_tied else set())
            self.compute.do(0, max(self.updates.free, self.kernels.free, *self.new))
            self.go_through(order[::-1], lambda unit: unit.backward, {i: ready[i] for i in kept},
                            lambda i: self.reduce(i, r == self.rounds - 1))
        end = self.compute.do(0, self.from_gpu.free, self.sums.free)
        for i, unit in enumerate(self.units):
            if not unit.has_draft:
                self.update(i, end)
        return end


def step_seconds(machine, model, run):
    """Of a step behind others, from its end to the next one's."""
    steps = Steps(machine, model, run)
    ends = [steps.step() for _ in range(5)]
    return ends[-1] - ends[-2]


def model_of(config):
    """Of a config.json of the families of Llama and GPT-2."""
    dim = config.get("hidden_size") or config["n_embd"]
    heads = config.get("num_attention_heads") or config["n_head"]
    is_gated = "intermediate_size" in config
    head_dim = config.get("head_dim") or dim // heads
    return Model(layers=config.get("num_hidden_layers") or config["n_layer"], dim=dim,
                 ffn_dim=config["intermediate_size"] if is_gated else config.get("n_inner") or 4 * dim,
                 kv_dim=config.get("num_key_value_heads", heads) * head_dim, vocab=config["vocab_size"],
                 matrices=3 if is_gated else 2, tied=int(config.get("tie_word_embeddings", True)))


def machine_of(transfer, adam, flops, hbm):
    """Of the rows of `bench transfer --json` and `bench adam --json`."""
    rows = {row["name"]: row["gb_per_s"] * 1e9 for row in transfer if row["gpu"] == 0}
    ways = rows["host to GPU"], rows["GPU to host"]
    share = min(1, rows["both at once"] / sum(ways))  # of each, while both work
    updates = [row["gb_per_s"] for row in adam if row["name"] == "update" and row["copy"] == "bf16" and row["units"] > 1]
    sums = [row["gb_per_s"] for row in adam if row["name"] == "sum with norm"]
    return Machine(flops=flops, hbm=hbm, to_gpu=ways[0] * share, from_gpu=ways[1] * share, adam=max(updates) * 1e9,
                   sum=max(sums) * 1e9)


def self_test():
    near = lambda a, b: abs(a - b) < 1e-6 * abs(b)
    machine, model, run = Machine(), Model(), Run()
    numel = model.numel()
    assert near(numel, sum(unit.numel for unit in units_of(model, run)))
    assert 6.7e9 < numel < 6.8e9, numel
    way = lambda name, **more: step_seconds(
        more.pop("machine", machine), model, dataclasses.replace(run, offload=WAYS[name][0], fraction=WAYS[name][1], **more))

    # Where nothing is elsewhere: the operations, and what the GPU does to gradients and states.
    operations = sum(unit.forward + unit.backward for unit in units_of(model, run))
    free = dataclasses.replace(machine, hbm=1e30)
    assert near(way("none", machine=free), operations / machine.flops)
    assert way("none") > way("none", machine=free)

    # Where the GPU takes no time: each lane alone, one after the other where one waits for the other's end.
    slow_adam = dataclasses.replace(machine, flops=1e30, hbm=1e30, to_gpu=1e30, from_gpu=1e30, sum=1e30)
    assert near(way("all", machine=slow_adam), 28 * numel / machine.adam)
    assert near(way("all", machine=slow_adam, passes=2, sums="device"), 30 * numel / machine.adam)
    slow_sums = dataclasses.replace(slow_adam, adam=1e30, sum=machine.sum)
    assert way("all", machine=slow_sums) < 1e-6
    assert near(way("all", machine=slow_sums, passes=2), 2 * OF_SUM * numel / machine.sum)
    assert way("all", machine=slow_sums, passes=2, sums="device") < 1e-6
    assert way("all", machine=slow_sums, passes=2, accumulate="unit") < 1e-6
    slow_bus = dataclasses.replace(slow_adam, adam=1e30, from_gpu=machine.from_gpu)
    for out, more in ((2, {}), (3 * 2, {"passes": 3}), (4, {"passes": 3, "sums": "device"}), (4, {"passes": 3, "accumulate": "unit"}),
                      (2, {"passes": 3, "accumulate": "unit", "gradient_bytes": 2})):
        assert near(way("all", machine=slow_bus, **more), out * numel / machine.from_gpu), more

    # What helps never hurts, but drafts, which move more, where updates alone take all the time; and the order of the ways is what one expects.
    for tokens in (8192, 32768, 131072):
        base = [way(name, tokens=tokens) for name in WAYS]
        assert all(a < 1.01 * b for a, b in zip(base, base[1:])), base
        helpful = ({"gradient_bytes": 2}, {"speculate": 1})[:1 if tokens < 32768 else 2]
        for better in helpful:
            assert way("all", tokens=tokens, passes=4, **better) <= way("all", tokens=tokens, passes=4) * 1.0001, better
    assert way("all", passes=8, accumulate="unit") < way("all", passes=8)
    assert model_of({"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
                     "intermediate_size": 16, "vocab_size": 9, "tie_word_embeddings": False}) == Model(3, 8, 16, 4, 9, 3, 0)
    rows = [{"name": name, "gpu": 0, "gb_per_s": speed} for name, speed in
            (("host to GPU", 50), ("GPU to host", 50), ("both at once", 80))]
    host = [{"name": "update", "copy": "bf16", "units": 24, "threads": 2, "gb_per_s": 100},
            {"name": "update", "copy": "none", "units": 24, "threads": 2, "gb_per_s": 110},
            {"name": "sum with norm", "copy": "", "units": 24, "threads": 1, "gb_per_s": 30},
            {"name": "sum with norm", "copy": "", "units": 24, "threads": 2, "gb_per_s": 60}]
    assert machine_of(rows, host, 1e15, 2e12) == Machine(1e15, 2e12, 40e9, 40e9, 100e9, 60e9)
    print("foretell: the arithmetic is as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true")
    parts = Machine, Model, Run
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name not in ("offload", "fraction"):
                parser.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    machine, model, run = (part(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(part)
                                   if hasattr(arguments, field.name)}) for part in parts)
    seconds = {name: step_seconds(machine, model, dataclasses.replace(run, offload=offload, fraction=fraction))
               for name, (offload, fraction) in WAYS.items()}
    print(f"{'offload':<10} {'s a step':>9} {'of none':>8}")
    for name, value in seconds.items():
        print(f"{name:<10} {value:9.3f} {seconds['none'] / value:8.3f}")


if __name__ == "__main__":
    main()
