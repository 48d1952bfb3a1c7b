#!/usr/bin/env python3
"""How long a step of LoRA takes beside one of the whole model, and beside peft with torch's AdamW, in turn on as many threads.

    scripts/bench/lora_peers.py [--rounds 5] [--preset smollm2-360m] | scripts/bench/tables.py     needs peft
    scripts/bench/lora_peers.py --frozen-types [--rounds 5] | scripts/bench/tables.py     a base in bf16, kept in each type
    scripts/bench/lora_peers.py --ranks 2 [--rounds 5] | scripts/bench/tables.py     ranks that have one copy of the base, beside one rank

One rank unless told, fp32, one sample a step and rank, all linear layers with rank 16. Seconds are medians of rounds, each of which is the median of
a few steps; ratios are medians of the rounds' own.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAM = os.environ.get("ZERO_PROGRAM", Path(__file__).resolve().parents[2] / "build/bin/zero_launch")
STEPS, RANK = 4, 16  # the first step is left out


def run(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ours(folder, data, out, given, recompute, *more, ranks=1):
    run(PROGRAM, "train", "--init-from", folder, "--data", data, "--out", out, "--steps", STEPS, "--global-batch", given.ranks, "--micro-batch", 1,
        "--seq-len", given.seq_len, "--ranks", ranks, "--threads", max(1, given.threads // ranks), "--recompute", recompute, "--eval-fraction", 0,
        "--save-at-end=false", "--device", "cpu", *more)
    records = map(json.loads, (Path(out) / "metrics.jsonl").read_text().splitlines())
    return statistics.median([each["seconds"] for each in records if each["type"] == "step"][1:])


class Peer:
    def __init__(self, folder, given, recompute):
        import peft
        import torch
        import transformers
        torch.set_num_threads(given.threads)
        self.torch, self.given = torch, given
        base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        if recompute == "unit":
            base.gradient_checkpointing_enable()
            base.enable_input_require_grads()
        self.model = peft.get_peft_model(base, peft.LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear", task_type="CAUSAL_LM")).train()
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=1e-4)

    def seconds(self):
        all_seconds = []
        for step in range(STEPS):
            tokens = self.torch.randint(0, 256, (1, self.given.seq_len + 1), generator=self.torch.Generator().manual_seed(step))
            begin = time.perf_counter()
            self.optimizer.zero_grad()
            logits = self.model(tokens[:, :-1], use_cache=False).logits
            self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            all_seconds.append(time.perf_counter() - begin)
        return statistics.median(all_seconds[1:])


def measure(folder, data, work, given, recompute):
    told = []
    for round_of in range(given.rounds):
        whole, lora = (ours(folder, data, work / f"{recompute}_{round_of}_{name}", given, recompute, *more)
                       for name, more in (("whole", ()), ("lora", ("--lora", f"r={RANK}"))))
        peer = Peer(folder, given, recompute).seconds()
        told.append({"whole s": whole, "lora s": lora, "of the whole's": lora / whole, "peft s": peer, "of peft's speed": peer / lora})
    return {key: statistics.median(each[key] for each in told) for key in told[0]}


def measure_types(folder, data, work, given, recompute):
    """Steps of adapters on a base in bf16, by what it is kept in."""
    told = []
    for round_of in range(given.rounds):
        seconds = {kept: ours(folder, data, work / f"{recompute}_{round_of}_{kept}", given, recompute, "--lora", f"r={RANK}", "--frozen-dtype", kept)
                   for kept in ("fp32", "bf16", "int8")}
        told.append({"fp32 s": seconds["fp32"], **{f"{kept}, of fp32's": seconds[kept] / seconds["fp32"] for kept in ("bf16", "int8")}})
    return {key: statistics.median(each[key] for each in told) for key in told[0]}


def measure_ranks(folder, data, work, given, recompute):
    """The same steps by one rank that has all threads, and by ranks that share them; and what a rank holds."""
    told = []
    for round_of in range(given.rounds):
        row = {}
        for ranks in (1, given.ranks):
            out = work / f"{recompute}_{round_of}_{ranks}"
            row[ranks] = ours(folder, data, out, given, recompute, "--lora", f"r={RANK}", ranks=ranks)
            records = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
            row[f"MiB of {ranks}"] = next(each["engine_allocated"] for each in records if each["type"] == "memory") / 2**20
        told.append({"one rank s": row[1], f"{given.ranks} ranks s": row[given.ranks], "of one rank's": row[given.ranks] / row[1],
                     "MiB of one": row["MiB of 1"], f"MiB of each of {given.ranks}": row[f"MiB of {given.ranks}"]})
    return {key: statistics.median(each[key] for each in told) for key in told[0]}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--seq-len", type=int, default=512)
    arguments.add_argument("--preset", default="smollm2-360m")
    arguments.add_argument("--frozen-types", action="store_true")
    arguments.add_argument("--ranks", type=int, default=1)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data = work / "data.bin"
        data.write_bytes(bytes(value for token in range(given.seq_len * 8 + 1) for value in (token * 7 % 251, 0)))
        run(PROGRAM, "seed", "--out", work / "seed", "--preset", given.preset, "--model", "llama", "--seq-len", given.seq_len)
        run(PROGRAM, "export", work / "seed", "--to", work / "base", *["--dtype", "bf16"] * given.frozen_types)
        way = measure_types if given.frozen_types else measure_ranks if given.ranks > 1 else measure
        rows = [{"model": given.preset, "recompute": recompute, **way(work / "base", data, work, given, recompute)} for recompute in ("none", "unit")]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
