"""Stages of scripts/gpu_check.sh about adapters: what they train on a GPU, and a step of 8B beside peft."""
import json
import statistics
import sys
from pathlib import Path

import benches

RANK, SAMPLES = 16, 4  # 16k tokens
LORA = ["--lora", f"r={RANK}"]
SMALL_LORA = ["--model", "llama", "--kv-heads", "2", "--lora", "r=4,alpha=16", "--lr", "1e-2"]
LLAMA_8B = ["--preset", "llama-8b", "--seq-len", str(benches.SEQ_LEN)]


def parity(check):
    """Losses against the CPU's; and the same bits wherever shards are, and however frozen weights are held."""
    flags = [*benches.COMMON, *benches.small_shape(check), "--global-batch", "8", "--micro-batch", "4", "--steps", "4" if check.is_dry else "12",
             *SMALL_LORA]
    told = benches.against_the_cpu(check, "adapters", flags)
    exact = [*flags, "--dtype", "bf16", "--device", "cuda", "--clip", "1", "--deterministic"]
    for types in (("fp32", "bf16"), ("int8",)):  # the first two are the same in bf16
        runs = {f"{way}, frozen {frozen}": check.train(way, [*exact, *more, "--frozen-dtype", frozen])
                for way, more in benches.PLACES.items() for frozen in types}
        benches.require_same_bits(runs)
        told[f"the same bits, {' and '.join(types)}"] = "; ".join(runs)
    return told


def large(check):
    """Flags of a run that is measured: adapters of all linear layers of a Llama of 8B."""
    sizes = benches.DRY_LLAMA if check.is_dry else LLAMA_8B
    return [*benches.COMMON, *sizes, *LORA, "--global-batch", str(SAMPLES), "--micro-batch", str(SAMPLES), "--steps",
            str(benches.STEPS), *benches.RATE, *benches.NOT_CLIPPED]


def steps(check):
    """Seconds a step of adapters, their base in bf16 and in int8."""
    flags, told = large(check), {}
    ways = [(f"{way}, {frozen}", [*more, "--frozen-dtype", frozen]) for way, more in check.chosen(benches.ENDS).items() for frozen in ("bf16", "int8")]
    for way, more in ways:
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
    return told


def peft_steps(check):
    """Seconds a step of peft's adapters of the same model."""
    shape = benches.plan(check, large(check))["model"]
    with benches.GpuMemory() as gpu:
        peer = check.run([sys.executable, str(Path(__file__).parent / "peft_peer.py"), json.dumps(shape["config"]), str(shape["seq_len"]),
                          str(SAMPLES), str(RANK), *["--dry"] * check.is_dry])
    seconds = json.loads(peer.splitlines()[-1])["seconds"]
    return {"s a step": round(statistics.median(seconds[benches.FIRST:]), 3), "MiB of the GPU": gpu.peak >> 20}
