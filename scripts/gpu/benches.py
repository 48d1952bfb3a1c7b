"""Stages of scripts/gpu_check.sh that compare: offloading with none of it, memory with its plan, PyTorch with us."""
import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "engine"  # real text, which every checkout has

COMMON = ["--model", "gpt2", "--seed", "1", "--data", str(TEXT), "--resume", "never", "--schedule", "constant",
          "--eval-fraction", "0"]
OF_EIGHT = [*COMMON, "--global-batch", "8", "--micro-batch", "4"]
# Of train runs that are compared: small, without dropout, the same on any device.
SMALL = [*OF_EIGHT, "--layers", "4", "--dim", "128", "--heads", "4", "--seq-len", "64", "--steps", "12"]
# For a test, whose GPU is made of threads.
DRY = ["--layers", "2", "--dim", "64", "--heads", "2", "--seq-len", "32", "--steps", "4", "--threads", "1"]
ROWS = 32  # of 1024 tokens
FIRST = 3  # step that is measured
WAYS = {"none": ["--offload", "none"], "optimizer": ["--offload", "optimizer"], "all": ["--offload", "all"],
        "half": ["--offload", "all", "--device-state-fraction", "0.5"]}


def large(check, rows=ROWS):
    """Of train runs that are measured; in a dry run small ones, which a test has time for."""
    shape = DRY if check.is_dry else ["--preset", "gpt2-124m", "--seq-len", "1024", "--steps", "12"]
    return [*COMMON, *shape, "--global-batch", str(8 if check.is_dry else rows), "--micro-batch", "8", "--clip", "1",
            "--dtype", "bf16", "--device", "cuda"]


def losses(steps):
    return [step["loss"] for step in steps]


def offload_parity(check):
    """Wherever shards lie: the same losses and norms, bit by bit."""
    runs_of = [*OF_EIGHT, *DRY] if check.is_dry else SMALL
    flags = [*runs_of, "--device", "cuda", "--dtype", "bf16", "--clip", "1", "--deterministic"]
    runs = {way: check.train(way, flags + more) for way, more in WAYS.items()}
    told = {way: [(step["loss"], step["grad_norm"]) for step in steps] for way, steps in runs.items()}
    others = [way for way in WAYS if told[way] != told["none"]]
    assert not others, f"not the bits of none: {', '.join(others)}"
    assert losses(runs["none"])[-1] < losses(runs["none"])[0], f"nothing was learnt: {losses(runs['none'])}"
    return {"the same bits": ", ".join(WAYS), "steps": len(runs["none"])}


def plan(check, flags):
    return json.loads(check.run([*check.program("zero_launch"), "plan", *flags, "--json"]).strip().splitlines()[-1])


class GpuMemory:
    """The most that is used of the first GPU while this is entered, beyond what was used before, in bytes."""

    def __enter__(self):
        self.before = self.peak = self.used()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.peak -= self.before

    def watch(self):
        while not self.ended.wait(0.2):
            self.peak = max(self.peak, self.used())

    @staticmethod
    def used():
        query = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20


def memory(check):
    """The engine's bytes are the plan's; all that the GPU holds is no more than a tenth above it."""
    check.run(["nvidia-smi", "-L"])  # where there is none this is skipped
    result, too_much = {}, []
    for way in ("none", "all"):
        flags = [*large(check), *WAYS[way]]
        planned = plan(check, flags)["gpu_bytes_per_rank"]
        with GpuMemory() as gpu:
            records = check.records("memory", flags)
        told = next(record for record in records if record["type"] == "memory")
        assert told["engine_allocated"] == told["engine_planned"], f"the engine took {told['engine_allocated']} bytes"
        result[f"{way}: MiB planned, measured"] = f"{planned >> 20}, {gpu.peak >> 20}"
        if gpu.peak > 1.1 * planned:
            too_much.append(way)
    assert not too_much, f"{result}: too much with {', '.join(too_much)}"
    return result


def step_seconds(check, flags):
    """Of the median step, the first ones left out."""
    return statistics.median(step["seconds"] for step in check.train("speed", flags)[FIRST:])


def half_of_the_states(check, rows):
    """--device-state-fraction auto, where the GPU has room for about half of them."""
    none, every = (plan(check, [*large(check, rows), *WAYS[way]])["gpu_bytes_per_rank"] for way in ("none", "all"))
    room = int((none + every) / 2 / 0.9)  # auto leaves a tenth
    return ["--offload", "all", "--device-state-fraction", "auto", "--device-memory", str(room)]


def offload_speed(rows, goals):
    """Steps with everything in the host's memory against steps with nothing there, in turn."""
    def body(check):
        ways = {"none": WAYS["none"], "all": WAYS["all"], "fraction auto": half_of_the_states(check, rows)}
        seconds = {way: [] for way in ways}
        for _ in range(2):
            for way, flags in ways.items():
                seconds[way].append(step_seconds(check, [*large(check, rows), *flags]))
        result = {"none, ms": round(statistics.median(seconds["none"]) * 1e3, 1)}
        for way, goal in goals.items():
            ratio = statistics.median(a / b for a, b in zip(seconds["none"], seconds[way]))
            result[f"{way}, of none's speed"] = f"{ratio:.3f} (goal {goal})"
        return result
    return body


def against_pytorch(ours, theirs, name):
    """Tokens per second in turn with PyTorch; medians, the first steps left out."""
    def body(check):
        flags = [*large(check), "--recompute", "none", *ours]
        peer = [sys.executable, str(ROOT / "scripts/gpu/torch_peer.py"), *theirs] + ["--dry"] * check.is_dry
        speeds = {"ours": [], "peer": []}
        for _ in range(2):
            speeds["ours"] += [step["tokens_per_second"] for step in check.train("speed", flags)[FIRST:]]
            speeds["peer"] += json.loads(check.run(peer).strip().splitlines()[-1])["tokens_per_second"]
        own, other = statistics.median(speeds["ours"]), statistics.median(speeds["peer"])
        return {"tokens/s": round(own), name: round(other), "ratio": round(own / other, 3)}
    return body


def largest_model(check):
    """With 14 bytes a parameter, masters and moments in fp32. Planned, not trained."""
    flags = ["--device", "cuda", "--model", "gpt2", "--layers", "4", "--vocab", "50257",
             "--seq-len", "1024", "--micro-batch", "1", "--global-batch", "1", "--dtype", "bf16", "--master", "split",
             "--grad-dtype", "bf16", "--loss-chunk", "1024", "--device-state-fraction", "auto"]
    flags += ["--dim", "256", "--heads", "4"] if check.is_dry else ["--dim", "5120", "--heads", "40"]
    answer = plan(check, flags)
    assert answer["largest"], "no model fits"
    return {"billion parameters": round(answer["largest"]["parameters"] / 1e9, 2),
            "shape": f"{answer['largest']['layers']} layers of {answer['largest']['dim']}",
            "GiB of GPU, of host": f"{answer['gpu_bytes_available'] >> 30}, {answer['bytes_available'] >> 30}"}
