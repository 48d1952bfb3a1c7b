"""Stages of scripts/gpu_check.sh about adapters: what they train on a GPU, and a step of 8B beside peft."""
import json
import statistics
import sys
from pathlib import Path

import benches

RANK, SAMPLES = 16, 4  # 16k tokens
LORA = ["--lora", f"r={RANK}"]
SMALL_LORA = ["--model", "llama", "--kv-heads", "2", "--lora", "r=4,alpha=16", "--lr", "1e-2"]
LLAMA_8B = ["--preset", "llama-8b", "--seq-len", str(benches.SEQ_LEN), "--frozen-dtype", "bf16"]


def parity(check):
    """Losses against the CPU's; and the same bits wherever shards are, and however frozen weights are held."""
    flags = [*benches.COMMON, *(benches.DRY if check.is_dry else benches.SIZES[len(benches.BATCH):]), "--global-batch", "8", "--micro-batch",
             "4", "--steps", "4" if check.is_dry else "12", *SMALL_LORA]
    told = {}
    for dtype, tolerance in {"fp32": 1e-3, "bf16": 5e-2}.items():
        on_gpu, on_cpu = (check.train("adapters", [*flags, "--dtype", dtype, "--device", device]) for device in ("cuda", "cpu"))
        difference = max(abs(a - b) for a, b in zip(benches.losses(on_gpu), benches.losses(on_cpu), strict=True))
        assert difference < tolerance, f"{dtype}: losses differ by {difference}, more than {tolerance}"
        assert on_gpu[-1]["loss"] < on_gpu[0]["loss"], f"nothing was learnt: {benches.losses(on_gpu)}"
        told[f"largest difference of losses, {dtype}"] = f"{difference:.2e}"
    exact = [*flags, "--dtype", "bf16", "--device", "cuda", "--clip", "1", "--deterministic"]
    ways = {**benches.WAYS, "optimizer": ["--offload", "optimizer"]}
    runs = {f"{way}, frozen {frozen}": [*more, "--frozen-dtype", frozen] for way, more in ways.items() for frozen in ("fp32", "bf16")
            if way != "auto"}
    seen = {name: [(step["loss"], step["grad_norm"]) for step in check.train(name, [*exact, *more])] for name, more in runs.items()}
    others = [name for name in seen if seen[name] != seen["none, frozen fp32"]]
    assert not others, f"other bits than of none: {', '.join(others)}"
    return {**told, "the same bits": ", ".join(runs)}


def steps(check):
    """Seconds a step of a Llama of 8B with adapters of all linear layers, its base in bf16; and of peft's."""
    sizes = [*benches.DRY_LLAMA, "--frozen-dtype", "bf16"] if check.is_dry else LLAMA_8B
    flags = [*benches.COMMON, *sizes, *LORA, "--global-batch", str(SAMPLES), "--micro-batch", str(SAMPLES), "--steps",
             str(benches.STEPS), *benches.RATE, *benches.NOT_CLIPPED]
    told = {}
    for way, more in check.chosen(benches.ENDS).items():
        planned = benches.plan(check, flags + more)
        if not planned["fits"]:
            told[way] = "does not fit"
            continue
        with benches.GpuMemory() as gpu:
            records = check.records(f"adapters {way}", flags + more)
        memory = next(record for record in records if record["type"] == "memory")
        assert memory["engine_allocated"] == memory["engine_planned"], memory
        seconds = statistics.median(step["seconds"] for step in benches.steps_among(records)[benches.FIRST:])
        told[f"{way}, s a step"] = round(seconds, 3)
        told[f"{way}, MiB of the GPU, planned"] = f"{gpu.peak >> 20}, {planned['gpu_bytes_per_rank'] >> 20}"
    shape = json.dumps(planned["model"]["config"])
    try:
        with benches.GpuMemory() as gpu:
            peer = check.run([sys.executable, str(Path(__file__).parent / "peft_peer.py"), shape, str(planned["model"]["seq_len"]), str(SAMPLES),
                              str(RANK), *["--dry"] * check.is_dry])
    except check.Skipped as reason:
        return {**told, "peft": str(reason)}
    theirs = json.loads(peer.splitlines()[-1])
    return {**told, "peft, s a step": round(statistics.median(theirs["seconds"][benches.FIRST:]), 3), "peft, MiB of the GPU": gpu.peak >> 20}
