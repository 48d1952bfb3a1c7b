"""Stages of scripts/gpu_check.sh that measure: what the machine does, steps beside what was foretold, PyTorch beside us."""
import dataclasses
import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path

import foretell

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "engine"  # real text, which every checkout has

FROM_SEED = ["--seed", "1", "--data", str(TEXT), "--resume", "never", "--schedule", "constant", "--eval-fraction", "0"]
COMMON = [*FROM_SEED, "--save-every", "0", "--save-at-end=false"]
BATCH = ["--model", "gpt2", "--global-batch", "8", "--micro-batch", "4"]
OF_EIGHT = [*COMMON, *BATCH]
# Of train runs that are compared: small, without dropout, the same on any device.
SHAPE = ["--layers", "4", "--dim", "128", "--heads", "4", "--seq-len", "64"]
SIZES = [*BATCH, *SHAPE]
SMALL = [*COMMON, *SIZES, "--steps", "12"]
# For a test, whose GPU is made of threads.
DRY = ["--layers", "2", "--dim", "64", "--heads", "2", "--seq-len", "32", "--threads", "1"]
DRY_LLAMA = [*DRY, "--model", "llama", "--vocab", "257"]
WAYS = {"none": ["--offload", "none"], "all": ["--offload", "all"],
        "half": ["--offload", "all", "--device-state-fraction", "0.5"], "auto": ["--offload", "auto"]}
# Where shards may lie, which changes no bit.
PLACES = {**{way: flags for way, flags in WAYS.items() if way != "auto"}, "optimizer": ["--offload", "optimizer"]}
TOLERANCES = {"fp32": 1e-3, "bf16": 5e-2}  # of losses
# What becomes of updates that begin in backward: of steps that are clipped they are made again.
DRAFTS = {**WAYS, "all, without drafts": ["--offload", "all", "--speculate", "off"],
          "all, clipped": ["--offload", "all", "--clip", "0.01"]}
NOT_CLIPPED = ["--clip", "1000"]  # with a norm all the same, as in most steps of a training that goes well
ENDS = {way: WAYS[way] for way in ("none", "all")}
SPLIT = {"most on the GPU": ["--offload", "all", "--device-state-fraction", "auto"], "half": WAYS["half"]}

# Of train runs that are measured. A vocabulary of 32,000, untied, so that embedding and head are units like others.
LLAMA_3B = ["--preset", "llama-3b", "--vocab", "32000", "--model-config", "tie_word_embeddings=false"]
LEAN = ["--master", "split", "--grad-dtype", "bf16"]  # 14 bytes a parameter
LLAMA_7B = ["--preset", "llama2-7b", *LEAN]
HALF_STATES = ["--state-dtype", "bf16"]  # 10 bytes
QWEN_14B = ["--preset", "qwen3-14b", *LEAN, *HALF_STATES]
SEQ_LEN = 4096
FIRST, STEPS = 2, 5  # steps 3 and 4 are measured, step 5 may be traced
LONG, LONG_STEPS = 128, 3  # so many thousand tokens make a long step: the last two are measured
LOSS_CHUNK = 8192
RATE = ["--lr", "1e-5", "--dtype", "bf16", "--loss-chunk", str(LOSS_CHUNK), "--device", "cuda"]


def large(check, shape, thousands, unit_major=False):
    """So many thousand tokens a step, in one pass; or unit by unit, 8k a pass."""
    samples = thousands * 1024 // SEQ_LEN
    sizes = DRY_LLAMA if check.is_dry else [*shape, "--seq-len", str(SEQ_LEN)]
    passes = ["--micro-batch", "2", "--accumulate", "unit"] if unit_major else ["--micro-batch", str(samples)]
    steps = LONG_STEPS if thousands >= LONG else STEPS
    return [*COMMON, *sizes, *passes, "--global-batch", str(samples), "--steps", str(steps), *RATE]


def records_in(out):
    return list(map(json.loads, (out / "metrics.jsonl").read_text().splitlines()))


def steps_among(records):
    return [record for record in records if record["type"] == "step"]


def losses(steps):
    return [step["loss"] for step in steps]


def bits_of(steps):
    return [(step["loss"], step["grad_norm"]) for step in steps]


def small_shape(check):
    return DRY if check.is_dry else SHAPE


def largest_difference(one, other):
    return max(abs(a - b) for a, b in zip(losses(one), losses(other), strict=True))


def against_the_cpu(check, name, flags):
    """How far losses are from the CPU's, in fp32 and bf16."""
    told = {}
    for dtype, tolerance in TOLERANCES.items():
        on_gpu, on_cpu = (check.train(name, [*flags, "--dtype", dtype, "--device", device]) for device in ("cuda", "cpu"))
        difference = largest_difference(on_gpu, on_cpu)
        assert difference < tolerance, f"{dtype}: losses differ by {difference}, more than {tolerance}"
        assert on_gpu[-1]["loss"] < on_gpu[0]["loss"], f"nothing was learnt: {losses(on_gpu)}"
        told[f"largest difference of losses, {dtype}"] = f"{difference:.2e}"
    return told


def require_same_bits(runs):
    """Of all runs, those of the first."""
    first = next(iter(runs))
    others = [name for name, steps in runs.items() if bits_of(steps) != bits_of(runs[first])]
    assert not others, f"not the bits of {first}: {', '.join(others)}"


def offload_parity(check):
    """Wherever shards lie: the same losses and norms, bit by bit; and again in a second run; also where parameters thaw."""
    runs_of = [*OF_EIGHT, *DRY, "--steps", "4"] if check.is_dry else SMALL
    flags = [*runs_of, "--device", "cuda", "--dtype", "bf16", "--clip", "1", "--deterministic"]
    runs = {way: check.train(way, flags + more) for way, more in {**PLACES, "none again": PLACES["none"]}.items()}
    require_same_bits(runs)
    assert losses(runs["none"])[-1] < losses(runs["none"])[0], f"nothing was learnt: {losses(runs['none'])}"
    thaw = [*flags, "--unfreeze-at", "1:*.h.0.*", "--unfreeze-at", "3:*wte*"]
    thawed = {way: check.train(way, thaw + more) for way, more in PLACES.items()}
    require_same_bits(thawed)
    assert bits_of(thawed["none"]) != bits_of(runs["none"]), "nothing was frozen"
    return {"the same bits": ", ".join(runs), "and thawing": ", ".join(thawed), "steps": len(runs["none"])}


# ---- what the machine does

def bench(check, kind, *flags):
    rows = check.run([*check.program("zero_launch"), "bench", kind, "--json", *flags]).strip().splitlines()[-1]
    return json.loads(rows)


def peer(check, *flags):
    """What scripts/gpu/torch_peer.py printed."""
    command = [sys.executable, str(ROOT / "scripts/gpu/torch_peer.py"), *flags] + ["--dry"] * check.is_dry
    return json.loads(check.run(command).strip().splitlines()[-1])


def machine_speeds(check):
    """Copies, the host's update and addition, products: what foretells the seconds of a step."""
    size, rounds = ("1M", "1") if check.is_dry else ("256M", "2")
    transfer = bench(check, "transfer", "--size", size, "--rounds", rounds)
    adam = bench(check, "adam", "--size", size, "--rounds", rounds)
    gpu = peer(check, "--speeds")
    check.product_flops = gpu["flops"]
    check.machine = foretell.machine_of(transfer, adam, gpu["flops"] * foretell.REACHED, gpu["hbm"])
    machine = check.machine
    return {"GB/s to the GPU, from it, of its memory": f"{machine.to_gpu / 1e9:.1f}, {machine.from_gpu / 1e9:.1f}, "
                                                       f"{machine.hbm / 1e9:.0f}",
            "GB/s of the host's update, of its addition": f"{machine.adam / 1e9:.1f}, {machine.sum / 1e9:.1f}",
            "TFLOP/s of a product": round(gpu["flops"] / 1e12)}


# ---- steps

def plan(check, flags):
    """What does not fit has exit code 3."""
    text = check.run([*check.program("zero_launch"), "plan", *flags, "--json"], allowed=(0, 3))
    return json.loads(text.strip().splitlines()[-1])


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
        while True:
            self.peak = max(self.peak, self.used())
            if self.ended.wait(0.5):
                return

    @staticmethod
    def used():
        query = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        try:
            return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20
        except FileNotFoundError:
            return 0


def arithmetic_of(planned, flags):
    """A plan, as the arithmetic takes it."""
    value = lambda flag: flags[flags.index(flag) + 1]
    samples, micro_batch = int(value("--global-batch")), int(value("--micro-batch"))
    seq_len = planned["model"]["seq_len"]
    masters, states = 8 if "--master" in flags else 10, 8 if "--state-dtype" in flags else 16
    model, drafts = foretell.model_of(planned["model"]["config"]), planned["speculate_bytes_per_rank"]
    draft_bytes = 4 + states // 2  # of a parameter: its master, whole or in halves, and its states
    run = foretell.Run(tokens=samples * seq_len, passes=samples // micro_batch, seq_len=seq_len,
                       accumulate=planned["accumulate"], sums=planned["grad_sums"], offload=planned["offload"],
                       gradient_bytes=2 if "--grad-dtype" in flags else 0, fraction=planned["device_state_fraction"],
                       update_bytes=masters + states,
                       speculate=drafts / draft_bytes / model.numel() if value("--clip") == NOT_CLIPPED[1] else 0)
    return model, run


def measure(check, way, flags, planned, trace):
    """A row of the report, and the problems of its memory."""
    with GpuMemory() as gpu:
        more = ["--trace", f"steps={STEPS}:{STEPS}"] if trace else []
        records = check.records(check.name, flags + more, keep="trace_*")
    told = next(record for record in records if record["type"] == "memory")
    steps = steps_among(records)
    steps = steps[FIRST:-1] if len(steps) == STEPS else steps[1:]
    median = lambda key: statistics.median(step[key] for step in steps)
    model, run = arithmetic_of(planned, flags)
    work = sum(unit.forward + unit.backward for unit in foretell.units_of(model, run))
    row = {"run": check.name, "offload": way, "seconds": median("seconds"), "model": model, "arithmetic": run,
           "TFLOP/s": work / median("seconds") / 1e12, "waits": median("share_waiting"),
           "MiB planned": planned["gpu_bytes_per_rank"] >> 20, "MiB": gpu.peak >> 20}
    problems = []
    if told["engine_allocated"] != told["engine_planned"]:
        problems.append(f"{way}: the engine took {told['engine_allocated']} bytes, planned {told['engine_planned']}")
    if gpu.peak > 1.1 * planned["gpu_bytes_per_rank"]:
        problems.append(f"{way}: {row['MiB']} MiB of the GPU, planned {row['MiB planned']}")
    return row, problems


def foretold(check, row, none):
    """Seconds from the machine's speeds alone; and the speed against none, from the speed that its layers were seen to reach."""
    if none:
        row["of none"] = none / row["seconds"]
    if not check.machine:
        return
    seconds = lambda machine, **more: foretell.step_seconds(machine, row["model"], dataclasses.replace(row["arithmetic"], **more))
    row["seconds foretold"] = seconds(check.machine)
    if none:
        base = seconds(check.machine, offload="none", fraction=0)
        seen = dataclasses.replace(check.machine, flops=check.machine.flops * base / none)
        row["of none foretold"] = seconds(seen, offload="none", fraction=0) / seconds(seen)


def steps_of(shape, thousands, unit_major=False, ways=WAYS, trace=None):
    """Steps with everything on the GPU, and with less there, where each fits: rows of the report."""
    def body(check):
        flags, others, problems, none, seen = large(check, shape, thousands, unit_major), {}, [], None, {}
        for way, more in check.chosen(ways).items():
            more = more if "--clip" in more else more + NOT_CLIPPED
            planned = plan(check, flags + more)
            chosen = planned["offload"], planned["device_state_fraction"], planned["speculate_bytes_per_rank"], more[-1]
            if not planned["fits"]:
                others[way] = "does not fit"
            elif chosen in seen:
                others[way] = f"chooses what {seen[chosen]} has"
            else:
                seen[chosen] = way
                try:
                    row, found = measure(check, way, flags + more, planned, way == trace)
                except RuntimeError as error:  # which others need not have
                    problems.append(f"{way}: {error}")
                    continue
                none = row["seconds"] if way == "none" else none
                foretold(check, row, none)
                check.rows.append(row)
                check.write()
                problems += found
        assert not problems, "; ".join(problems)
        if not seen:
            raise check.Skipped("nothing fits")
        return {"measured": ", ".join(seen.values()), **others}
    return body


def saves_beside_steps(check):
    """Steps before a save and beside it, of a Llama of a billion parameters, with all its state on the GPU and with none of it."""
    sizes = DRY_LLAMA if check.is_dry else [*LLAMA_3B, "--layers", "8", "--seq-len", str(SEQ_LEN)]
    every = 4 if check.is_dry else 20
    flags = [*FROM_SEED, *sizes, "--global-batch", "8", "--micro-batch", "8", *RATE, *NOT_CLIPPED, "--save-at-end=false",
             "--save-every", str(every), "--steps", str(2 * every - 1)]
    told = {}
    for way, more in check.chosen(ENDS).items():
        before, beside, save = [], [], None
        for record in check.records(check.name, flags + more):
            if record["type"] == "step" and save is None and record["step"] <= every:
                before.append(record["seconds"])
            elif record["type"] == "step" and save is None:
                beside.append(record["seconds"])
            save = record if record["type"] == "save" else save
        median = statistics.median(before[FIRST:])
        told[way] = (f"{median:.3f} s a step before; the save {save['seconds']:.2f} s; beside it {len(beside)} steps in "
                     f"{sum(beside):.2f} s, {sum(beside) - len(beside) * median:.2f} s more")
    return told


def against_pytorch(way, theirs, name):
    """A step's seconds beside PyTorch's, the same model and batch."""
    def body(check):
        flags = large(check, LLAMA_3B, 32) + WAYS[way] + NOT_CLIPPED
        shape = plan(check, flags)["model"]
        own = next((row["seconds"] for row in check.rows if (row["run"], row["offload"]) == ("3B 32k", way)), None)
        if own is None:
            own = statistics.median(step["seconds"] for step in check.train("ours", flags)[FIRST:])
        words = {**{key: shape[key] for key in ("layers", "dim", "heads", "kv_heads", "ffn_dim", "vocab", "seq_len")},
                 "samples": 8, "micro_batch": 8, "loss_chunk": LOSS_CHUNK, "steps": STEPS}
        told = peer(check, *theirs, *(f"--{key.replace('_', '-')}={value}" for key, value in words.items()))
        other = statistics.median(told["seconds"][FIRST:])
        return {"ours, s a step": round(own, 3), f"{name}, s a step": round(other, 3),
                "our speed by theirs": round(other / own, 3)}
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
