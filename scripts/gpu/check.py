"""What scripts/gpu_check.sh does: stages that need a GPU, each of them a command with a judgement of what it printed.

Results are written after each stage, so that whatever ends this early leaves what there was.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import benches
from benches import ROOT, SMALL, losses

LOGGED = 200_000  # characters of what a command printed, from its end


class Skipped(Exception):
    """A stage that this machine cannot do; the text says why."""


class Check:
    def __init__(self, arguments):
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.scratch = self.out / "runs"
        self.bundle = arguments.bundle and Path(arguments.bundle).resolve()
        self.build = Path(arguments.build)
        self.is_dry = arguments.dry
        self.deadline = time.monotonic() + arguments.minutes * 60
        self.log = open(self.out / "check.log", "w")
        self.stages = []

    def program(self, name):
        if self.bundle:
            return [str(self.bundle / "run"), name]
        folder = "tests" if name.endswith("_tests") else "bin"
        return ["mpirun"] if name == "mpirun" else [str(self.build / folder / name)]

    def run(self, command, seconds=180):
        """What the command printed. Throws RuntimeError with its end unless it succeeded."""
        left = self.deadline - time.monotonic()
        if left < 5:
            raise Skipped("no time is left")
        self.log.write("\n$ " + " ".join(command) + "\n")
        self.log.flush()
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace", start_new_session=True)
        except FileNotFoundError as error:
            raise Skipped(f"{error.filename} is not here") from None
        try:
            text, _ = process.communicate(timeout=min(seconds, left))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            if left <= seconds:
                raise Skipped("no time was left to finish it") from None
            text += f"\nended after {min(seconds, left):.0f} s\n"
        self.log.write(text[-LOGGED:])
        self.log.flush()
        if process.returncode == 77:
            raise Skipped(text.strip().splitlines()[-1])
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}: " + " / ".join(text.strip().splitlines()[-3:]))
        return text

    def records(self, name, flags, ranks=1):
        """What a training run wrote of itself."""
        out = self.scratch / name
        shutil.rmtree(out, ignore_errors=True)
        start = [] if ranks == 1 else self.program("mpirun") + ["-n", str(ranks)]
        program = self.program("zero_launch")
        if start and self.bundle:
            program = ["zero_launch"]
        self.run(start + program + ["train", "--out", str(out), *flags])
        records = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        shutil.rmtree(out, ignore_errors=True)  # checkpoints are large
        return list(records)

    def train(self, name, flags, ranks=1):
        """The step records of a training run."""
        return [record for record in self.records(name, flags, ranks) if record["type"] == "step"]

    def stage(self, name, body):
        begin = time.monotonic()
        try:
            result, status = body(self) or {}, "passed"
        except Skipped as reason:
            result, status = {"reason": str(reason)}, "skipped"
        except Exception as error:  # a stage that fails must not end the others
            result, status = {"error": f"{error}"}, "failed"
        self.stages.append({"stage": name, "status": status, "seconds": round(time.monotonic() - begin, 1), **result})
        print(json.dumps(self.stages[-1]), flush=True)
        self.write()

    def write(self):
        (self.out / "report.json").write_text(json.dumps(self.stages, indent=1) + "\n")
        rows = ["| stage | | seconds | |", "|---|---|---|---|"]
        for stage in self.stages:
            told = "; ".join(f"{key}: {value}" for key, value in stage.items()
                             if key not in ("stage", "status", "seconds"))
            rows.append(f"| {stage['stage']} | {stage['status']} | {stage['seconds']} | {told} |")
        (self.out / "report.md").write_text("\n".join(rows) + "\n")


def machine(check):
    query = "name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current"
    gpu = check.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).strip().splitlines()
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    torch = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                           text=True)
    return {"gpu": gpu[0], "gpus": len(gpu), "torch": torch.stdout.strip(), "commit": commit.stdout.strip(),
            "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}


def tests(name, gtest_filter="*"):
    def body(check):
        text = check.run(check.program(name) + [f"--gtest_filter={gtest_filter}", "--gtest_color=no"])
        ran = [line for line in text.splitlines() if line.startswith("[==========]")][-1]
        return {"tests": ran.removeprefix("[==========] ")}
    return body


def largest_difference(one, other):
    return max(abs(a - b) for a, b in zip(losses(one), losses(other), strict=True))


def parity(dtype, tolerance):
    def body(check):
        flags = [*SMALL, "--dtype", dtype]
        on_gpu = check.train("gpu", [*flags, "--device", "cuda"])
        on_cpu = check.train("cpu", [*flags, "--device", "cpu"])
        difference = largest_difference(on_gpu, on_cpu)
        assert difference < tolerance, f"losses differ by {difference}, more than {tolerance}"
        assert on_gpu[-1]["loss"] < on_gpu[0]["loss"] - 0.5, f"nothing was learnt: {losses(on_gpu)}"
        return {"largest difference of losses": f"{difference:.2e}", "last loss": round(on_gpu[-1]["loss"], 4)}
    return body


def repeated(check):
    flags = [*SMALL, "--device", "cuda", "--deterministic"]
    one, other = check.train("one", flags), check.train("other", flags)
    same = [(a["loss"], a["grad_norm"]) for a in one] == [(b["loss"], b["grad_norm"]) for b in other]
    assert same, f"two runs differ by {largest_difference(one, other)}"
    return {"steps": len(one)}


def two_ranks(check):
    flags = [*SMALL, "--device", "cuda", "--share-gpu"]
    difference = largest_difference(check.train("two", flags, ranks=2), check.train("alone", flags))
    assert difference < 1e-3, f"losses differ by {difference}"
    return {"largest difference of losses": f"{difference:.2e}"}


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


# The most telling first.
STAGES = {
    "machine": machine,
    "kernels": tests("gpu_kernel_tests"),
    "device": tests("gpu_tests", "*DeviceTest*"),
    "engine": tests("gpu_tests", "-*DeviceTest*"),
    "offload parity": benches.offload_parity,
    "parity fp32": parity("fp32", 1e-3),
    "parity bf16": parity("bf16", 5e-2),
    "memory": benches.memory,
    "offload speed 32k": benches.offload_speed(32, {"fraction auto": 0.97, "all": 0.97}),
    "FSDP2 offload": benches.against_pytorch(["--offload", "all"], ["--fsdp2"], "PyTorch, FSDP2 with CPUOffloadPolicy"),
    "offload speed 128k": benches.offload_speed(128, {"fraction auto": 0.99, "all": 0.99}),
    "speed": benches.against_pytorch([], [], "PyTorch, all on the GPU"),
    "largest model": benches.largest_model,
    "deterministic twice": repeated,
    "two ranks on one GPU": two_ranks,
    "compute-sanitizer": sanitizer,
}


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__.splitlines()[0])
    parser.add_argument("out", help="a folder for check.log, report.json and report.md")
    parser.add_argument("--bundle", help="a folder that gpu_bundle.sh made")
    parser.add_argument("--build", default=str(ROOT / "build"), help=argparse.SUPPRESS)
    parser.add_argument("--dry", action="store_true", help=argparse.SUPPRESS)  # small runs, for a test
    parser.add_argument("--minutes", type=float, default=8, help="what is not begun by then is skipped [8]")
    parser.add_argument("--only", action="append", choices=list(STAGES), help="this stage; may be said again")
    arguments = parser.parse_args()
    check = Check(arguments)
    try:
        check.run(check.program("gpu_tests") + ["--gtest_filter=-*"], seconds=60)
    except Skipped as reason:
        print(f"gpu_check.sh: {reason}", file=sys.stderr)
        sys.exit(3)
    except RuntimeError as error:
        print(f"gpu_check.sh: the tests for GPUs do not start: {error}", file=sys.stderr)
        sys.exit(1)
    for name, body in STAGES.items():
        if not arguments.only or name in arguments.only:
            check.stage(name, body)
    states = [stage["status"] for stage in check.stages]
    print((check.out / "report.md").read_text(), end="")
    shutil.rmtree(check.scratch, ignore_errors=True)
    sys.exit("failed" in states)


if __name__ == "__main__":
    main()
