"""Stages of scripts/gpu_check.sh that let several ranks use one GPU by NCCL, which NCCL 2.30 and later allow."""
import os
import signal
import subprocess
import time
from pathlib import Path

import benches

LOST_STEPS = 3  # before a rank is killed
PATIENCE = 60  # seconds until the others have ended
FLAGS = ["--device", "cuda", "--share-gpu", "--clip", "1"]


def steps_of(check, name, flags, ranks=1):
    return check.train(name, [*flags, *FLAGS], ranks)


def sizes(check, micro_batch):
    return ["--model", "gpt2", "--global-batch", "8", "--micro-batch", str(micro_batch), *benches.small_shape(check)]


def require(check):
    """NCCL exchanges between ranks on one GPU: else such ranks could not keep their states there."""
    try:
        steps_of(check, "asked", [*benches.COMMON, *sizes(check, 4), "--steps", "1", "--offload", "none"], ranks=2)
    except RuntimeError as error:
        if "through the host's memory" in str(error):
            raise check.Skipped("NCCL 2.30 or later is needed (--nccl FILE)") from None
        raise


def parity(check):
    """Several ranks have one rank's losses and norms: bit by bit with --deterministic, wherever states are, in groups, and resumed."""
    require(check)
    steps = "4" if check.is_dry else "12"
    exact = [*benches.COMMON, "--deterministic", "--steps", steps]
    ways = {**{f"2 ranks, {way}": (2, 4, flags) for way, flags in benches.PLACES.items()}, "4 ranks": (4, 2, []),
            "4 ranks in groups of 2": (4, 2, ["--shard-over", "2", "--offload", "none"])}
    alone = {micro_batch: steps_of(check, "alone", [*exact, *sizes(check, micro_batch)]) for micro_batch in (4, 2)}
    for name, (ranks, micro_batch, flags) in ways.items():
        run = steps_of(check, name, [*exact, *sizes(check, micro_batch), *flags], ranks)
        benches.require_same_bits({"one rank": alone[micro_batch], name: run})
    return {"one rank's bits": "; ".join(ways), **nearly(check, steps), **resumed(check)}


def nearly(check, steps):
    """Sums as NCCL makes them, and of bf16."""
    found = {}
    for dtype, tolerance in benches.TOLERANCES.items():
        flags = [*benches.COMMON, "--steps", steps, "--dtype", dtype, *sizes(check, 4)]
        difference = benches.largest_difference(*(steps_of(check, dtype, flags, ranks) for ranks in (1, 2)))
        assert difference < tolerance, f"{dtype}: losses differ by {difference}"
        found[f"largest difference of losses, {dtype}"] = f"{difference:.2e}"
    return found


def resumed(check):
    """Two ranks stop in the middle, four go on, as one that did not stop."""
    def train(out, steps, ranks, micro_batch):
        flags = [*benches.FROM_SEED, *sizes(check, micro_batch), "--deterministic", "--steps", str(steps), *FLAGS, "--out", str(out)]
        flags[flags.index("--resume") + 1] = "auto"
        check.run([*check.start(ranks), "train", *flags])
        return benches.losses(benches.steps_among(benches.records_in(out)))

    whole, parted = check.scratch / "whole_ranks", check.scratch / "parted_ranks"
    expected = train(whole, 6, 4, 2)
    train(parted, 3, 2, 2)
    assert train(parted, 6, 4, 2) == expected, "a run that 4 ranks took over from 2 has other losses"
    return {"resumed": "on 4 ranks from 2"}


def ranks_of(out):
    """The processes that train there, but for the one that started them."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"zero_launch") and str(out).encode() in words:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
    return sorted(process for process, parent in parents.items() if parent in parents)


def lost_rank(check):
    """A rank is killed between two steps: the other one ends soon, with an error, and says which rank is gone."""
    require(check)
    out = check.scratch / "lost"
    flags = [*benches.COMMON, *sizes(check, 4), *FLAGS, "--offload", "none", "--steps", "100000", "--ranks", "2", "--out", str(out)]
    command = [*check.program("zero_launch"), "train", *flags]
    process = subprocess.Popen(command, env=check.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        metrics = out / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count('"step"') < LOST_STEPS:
            assert process.poll() is None and time.monotonic() < check.stage_ends, f"it does not train: {process.communicate()[0]}"
            time.sleep(0.1)
        os.kill(ranks_of(out)[-1], signal.SIGKILL)
        begin = time.monotonic()
        text, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    check.log.write(text)
    assert process.returncode not in (0, -signal.SIGKILL) and "rank 1" in text, f"exit code {process.returncode}: {text[-500:]}"
    return {"s until all had ended": round(time.monotonic() - begin, 1), "exit code": process.returncode}
