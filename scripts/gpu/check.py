"""What scripts/gpu_check.sh does: stages that need a GPU, each of them commands with a judgement of what they printed.

Results are written after each stage, so that whatever ends this early leaves what there was.
"""
import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import adapters
import benches
import nccl
import texts
from benches import LLAMA_3B, LLAMA_7B, QWEN_14B, ROOT, SMALL, largest_difference, losses, steps_of

LOGGED = 200_000  # characters of what a command printed, from its end
MINUTES = 8
HEAD = """# Check of a GPU

{machine}

| stage | | seconds | |
|---|---|---|---|
{stages}
"""
STEPS = """
## Steps

Foretold seconds are scripts/gpu/foretell.py's, from this machine's copies, additions, updates and products. The speed against
`none` is foretold from the seconds that `none` took. `waits` is the part of a step in which the GPU waits for weights, for room
for gradients, or at the end of a step.

| run | offload | s a step | foretold | of none | foretold | TFLOP/s | waits | MiB of the GPU | planned |
|---|---|---|---|---|---|---|---|---|---|
{rows}
"""


class Skipped(Exception):
    """A stage that this machine cannot do; the text says why."""


class Check:
    Skipped = Skipped

    def __init__(self, arguments):
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.scratch = self.out / "runs"
        self.bundle = arguments.bundle and Path(arguments.bundle).resolve()
        self.build = Path(arguments.build)
        self.is_dry = arguments.dry
        self.ways = arguments.way
        self.nccl = arguments.nccl
        self.patience = arguments.minutes / MINUTES
        self.deadline = self.stage_ends = time.monotonic() + arguments.minutes * 60
        self.log = open(self.out / "check.log", "w")
        self.stages, self.rows = [], []
        self.name = ""  # of the stage
        self.machine = None  # its speeds, once they are measured

    def chosen(self, ways):
        """Of ways to train, those that were asked for."""
        return {way: flags for way, flags in ways.items() if not self.ways or way in self.ways}

    def program(self, name):
        if self.bundle:
            return [str(self.bundle / "run"), name]
        folder = "tests" if name.endswith("_tests") else "bin"
        return ["mpirun"] if name == "mpirun" else [str(self.build / folder / name)]

    def start(self, ranks):
        """So many ranks of the program."""
        start = [] if ranks == 1 else self.program("mpirun") + ["-n", str(ranks)]
        return start + (["zero_launch"] if start and self.bundle else self.program("zero_launch"))

    def environment(self):
        """Of the stages of nccl.py: NCCL may serve several ranks of one GPU, by the library that was named."""
        if not self.name.startswith("NCCL"):
            return None
        return {**os.environ, "NCCL_MULTI_RANK_GPU_ENABLE": "1", **({"LD_PRELOAD": self.nccl} if self.nccl else {})}

    def run(self, command, allowed=(0,)):
        """What the command printed, in what is left of the stage's time. Throws RuntimeError for another exit code."""
        left = self.stage_ends - time.monotonic()
        self.log.write("\n$ " + " ".join(command) + "\n")
        self.log.flush()
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace", start_new_session=True, env=self.environment())
        except FileNotFoundError as error:
            raise Skipped(f"{error.filename} is not here") from None
        try:
            text, _ = process.communicate(timeout=max(0, left))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            if self.stage_ends == self.deadline:
                raise Skipped("no time was left to finish it") from None
            text += f"\nthe stage's time was over: it was ended after {left:.0f} s\n"
        self.log.write(text[-LOGGED:])
        self.log.flush()
        if process.returncode == 77:
            raise Skipped(text.strip().splitlines()[-1])
        if process.returncode not in allowed:
            raise RuntimeError(f"exit code {process.returncode}: " + " / ".join(text.strip().splitlines()[-3:]))
        return text

    def records(self, name, flags, ranks=1, keep=""):
        """What a training run wrote of itself. Its files of the pattern `keep` stay, in OUT."""
        out = self.scratch / name.replace(" ", "_")
        shutil.rmtree(out, ignore_errors=True)
        self.run([*self.start(ranks), "train", "--out", str(out), *flags])
        records = benches.records_in(out)
        for path in out.glob(keep) if keep else ():
            shutil.move(path, self.out / path.name)
        shutil.rmtree(out, ignore_errors=True)
        return records

    def train(self, name, flags, ranks=1):
        """The step records of a training run."""
        return benches.steps_among(self.records(name, flags, ranks))

    def stage(self, name, body, seconds):
        """A stage is begun where at least half of its time is left."""
        begin = time.monotonic()
        self.name = name
        seconds *= self.patience
        left = self.deadline - begin
        self.stage_ends = min(begin + seconds, self.deadline)
        try:
            if left < seconds / 2:
                result, status = {"reason": f"{left:.0f} s were left, and it may take {seconds:.0f}"}, "left out"
            else:
                result, status = body(self) or {}, "passed"
        except Skipped as reason:
            result, status = {"reason": str(reason)}, "skipped"
        except Exception as error:  # a stage that fails must not end the others
            result, status = {"error": f"{error}"}, "failed"
        self.stages.append({"stage": name, "status": status, "seconds": round(time.monotonic() - begin, 1), **result})
        print(json.dumps(self.stages[-1]), flush=True)
        self.write()

    def write(self):
        rows = [{key: value for key, value in row.items() if key not in ("model", "arithmetic")} for row in self.rows]
        (self.out / "report.json").write_text(json.dumps({"stages": self.stages, "steps": rows}, indent=1) + "\n")
        (self.out / "report.md").write_text(self.report())

    def report(self):
        def told(stage):
            return "; ".join(f"{key}: {value}" for key, value in stage.items() if key not in ("stage", "status", "seconds"))

        def number(row, key, digits):
            return f"{row[key]:.{digits}f}" if key in row else ""

        stages = [f"| {stage['stage']} | {stage['status']} | {stage['seconds']} | {told(stage)} |" for stage in self.stages
                  if stage["stage"] != "machine"]
        rows = [f"| {row['run']} | {row['offload']} | " + " | ".join(
                    number(row, key, digits) for key, digits in
                    (("seconds", 3), ("seconds foretold", 3), ("of none", 3), ("of none foretold", 3), ("TFLOP/s", 0),
                     ("waits", 2), ("MiB", 0), ("MiB planned", 0))) + " |" for row in self.rows]
        machine = [f"* {key}: {value}" for stage in self.stages if stage["stage"] == "machine" for key, value in stage.items()
                   if key != "stage"]
        text = HEAD.format(machine="\n".join(machine) or "The machine was not looked at.", stages="\n".join(stages))
        return text + (STEPS.format(rows="\n".join(rows)) if rows else "")


def machine(check):
    """A first look: what is here, and its speeds."""
    query = "name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current"
    gpus = check.run(["sh", "-c", f"nvidia-smi --query-gpu={query} --format=csv,noheader || true"]).strip().splitlines()
    seen = check.run(["sh", "-c", 'nvidia-smi; lscpu; free -g; df -h "$1"; true', "sh", str(check.out)])  # in check.log, too
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "none"
    cpu = next((line.split(":")[1].strip() for line in seen.splitlines() if line.startswith("Model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {"gpus": "; ".join(gpus), "processor": f"{cpu}, {len(os.sched_getaffinity(0))} CPUs, {memory} GiB",
            "torch": torch, "commit": commit.stdout.strip(), "date": time.strftime("%Y-%m-%d"),
            **benches.machine_speeds(check)}


def tests(name, gtest_filter="*"):
    def body(check):
        text = check.run(check.program(name) + [f"--gtest_filter={gtest_filter}", "--gtest_color=no"])
        ran = [line for line in text.splitlines() if line.startswith("[==========]")][-1]
        return {"tests": ran.removeprefix("[==========] ")}
    return body


def parity(dtype):
    def body(check):
        tolerance = benches.TOLERANCES[dtype]
        flags = [*SMALL, "--dtype", dtype]
        on_gpu = check.train("gpu", [*flags, "--device", "cuda"])
        on_cpu = check.train("cpu", [*flags, "--device", "cpu"])
        difference = largest_difference(on_gpu, on_cpu)
        assert difference < tolerance, f"losses differ by {difference}, more than {tolerance}"
        assert on_gpu[-1]["loss"] < on_gpu[0]["loss"] - 0.5, f"nothing was learnt: {losses(on_gpu)}"
        return {"largest difference of losses": f"{difference:.2e}", "last loss": round(on_gpu[-1]["loss"], 4)}
    return body


def two_ranks(check):
    flags = [*SMALL, "--device", "cuda", "--share-gpu"]
    difference = largest_difference(check.train("two", flags, ranks=2), check.train("alone", flags))
    assert difference < 1e-3, f"losses differ by {difference}"
    return {"largest difference of losses": f"{difference:.2e}"}


def saves(check):
    """A run that stops and goes on has the losses of one that did not, and its model speaks."""
    sizes = [*benches.BATCH, *benches.DRY] if check.is_dry else benches.SIZES
    flags = [*sizes, "--seed", "1", "--data", str(benches.TEXT), "--schedule", "constant", "--device", "cuda", "--dtype",
             "bf16", "--deterministic"]
    whole, parted = (str(check.scratch / name) for name in ("whole", "parted"))
    train = lambda out, steps: check.run([*check.program("zero_launch"), "train", "--out", out, "--steps", str(steps), *flags])
    train(whole, 8), train(parted, 4), train(parted, 8)
    told = [losses(benches.steps_among(benches.records_in(Path(out)))) for out in (whole, parted)]
    assert told[0] == told[1] and len(told[0]) == 8, f"losses differ: {told}"
    text = check.run([*check.program("zero_launch"), "generate", parted, "--prompt", "int main", "--num-tokens", "20",
                      "--device", "cuda"])
    assert len(text) > 20, text
    return {"steps": len(told[0]), "the same losses": "stopped after 4 and resumed"}


def images(check):
    """A RegNet on one rank, and with batch norms over two that share the GPU."""
    shapes = check.scratch / "shapes"
    check.run([sys.executable, str(ROOT / "scripts/make_shapes.py"), str(shapes), "--count", "64"])
    flags = ["--seed", "1", "--data", str(shapes), "--model", "regnet", "--preset", "regnety_tiny", "--steps", "6",
             "--global-batch", "16", "--resume", "never", "--schedule", "constant", "--eval-fraction", "0", "--save-every", "0",
             "--save-at-end=false", "--device", "cuda", "--share-gpu", "--sync-bn"]
    one, two = (check.train("images", [*flags, "--micro-batch", str(16 // ranks)], ranks) for ranks in (1, 2))
    difference = largest_difference(one, two)
    assert difference < 1e-2, f"losses differ by {difference}"
    return {"largest difference of losses, two ranks and one": f"{difference:.2e}"}


def sanitizer(check):
    program = shutil.which("compute-sanitizer")
    if not program:
        raise Skipped("compute-sanitizer is not installed")
    if check.bundle:
        command = [str(check.bundle / "run"), program, "--error-exitcode", "9",
                   str(check.bundle / "bin" / "gpu_kernel_tests")]
    else:
        command = [program, "--error-exitcode", "9", *check.program("gpu_kernel_tests")]
    check.run(command)


# In order of worth, what is right before what is fast; with the seconds that each may take at most.
STAGES = {
    "machine": (machine, 60),
    "kernels": (tests("gpu_kernel_tests"), 60),
    "device": (tests("gpu_tests", "*DeviceTest*"), 60),
    "engine": (tests("gpu_tests", "-*DeviceTest*"), 90),
    "offload parity": (benches.offload_parity, 90),
    "parity fp32": (parity("fp32"), 40),
    "parity bf16": (parity("bf16"), 40),
    "two ranks on one GPU": (two_ranks, 40),
    "saves": (saves, 40),
    "images": (images, 40),
    "NCCL on one GPU": (nccl.parity, 180),
    "NCCL, a lost rank": (nccl.lost_rank, 60),
    "adapters": (adapters.parity, 120),
    "packed documents": (texts.packed, 60),
    "generation": (texts.generation, 120),
    "3B 32k": (steps_of(LLAMA_3B, 32, ways=benches.DRAFTS, trace="all"), 150),
    "FSDP2 offload": (benches.against_pytorch("all", ["--fsdp2"], "PyTorch, FSDP2 with CPUOffloadPolicy"), 90),
    "PyTorch": (benches.against_pytorch("none", [], "PyTorch, all on the GPU"), 60),
    "7B 32k": (steps_of(LLAMA_7B, 32), 240),
    "7B 32k, moments in bf16": (steps_of([*LLAMA_7B, *benches.HALF_STATES], 32, ways=benches.ENDS), 150),
    "generation, 3B": (texts.generation_speed, 150),
    "adapters, 8B": (adapters.steps, 260),
    "adapters, 8B, peft": (adapters.peft_steps, 90),
    "3B 32k packed": (texts.packed_steps, 90),
    "saves beside steps": (benches.saves_beside_steps, 120),
    "14.8B 8k": (steps_of(QWEN_14B, 8, ways=benches.SPLIT), 180),
    "7B 128k unit-major": (steps_of(LLAMA_7B, 128, unit_major=True, ways=benches.ENDS), 240),
    "3B 8k": (steps_of(LLAMA_3B, 8), 120),
    "3B 128k unit-major": (steps_of(LLAMA_3B, 128, unit_major=True), 240),
    "3B 128k": (steps_of(LLAMA_3B, 128), 240),
    "3B 32k unit-major": (steps_of(LLAMA_3B, 32, unit_major=True), 150),
    "largest model": (benches.largest_model, 20),
    "compute-sanitizer": (sanitizer, 120),
}


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__.splitlines()[0])
    parser.add_argument("out", help="a folder for check.log, report.json and report.md")
    parser.add_argument("--bundle", help="a folder that gpu_bundle.sh made")
    parser.add_argument("--nccl", metavar="FILE", help="another libnccl.so.2 for the stages of NCCL, 2.30 or later")
    parser.add_argument("--build", default=str(ROOT / "build"), help=argparse.SUPPRESS)
    parser.add_argument("--dry", action="store_true", help=argparse.SUPPRESS)  # small runs, for a test
    parser.add_argument("--minutes", type=float, default=MINUTES,
                        help=f"in all; each stage's own time grows and shrinks with it [{MINUTES}]")
    parser.add_argument("--only", action="append", choices=list(STAGES), help="this stage; may be said again")
    parser.add_argument("--way", action="append", choices=list(benches.DRAFTS), help="of measured runs, those with this choice "
                        "of what stays on the GPU; may be said again")
    arguments = parser.parse_args()
    check = Check(arguments)
    try:
        check.run(check.program("gpu_tests") + ["--gtest_filter=-*"])
    except Skipped as reason:
        print(f"gpu_check.sh: {reason}", file=sys.stderr)
        sys.exit(3)
    except RuntimeError as error:
        print(f"gpu_check.sh: the tests for GPUs do not start: {error}", file=sys.stderr)
        sys.exit(1)
    for name, (body, seconds) in STAGES.items():
        if not arguments.only or name in arguments.only:
            check.stage(name, body, seconds)
    print((check.out / "report.md").read_text(), end="")
    shutil.rmtree(check.scratch, ignore_errors=True)
    left_out = [stage["stage"] for stage in check.stages if stage["status"] == "left out"]
    if left_out:
        print(f"gpu_check.sh: no time was left for: {', '.join(left_out)} (--only STAGE, --minutes N)", file=sys.stderr)
    sys.exit(any(stage["status"] == "failed" for stage in check.stages))


if __name__ == "__main__":
    main()
