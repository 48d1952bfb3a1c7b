#!/usr/bin/env python3
"""Is the memory that a run takes the memory that its plan tells?

    ZERO_TARGET="zero_launch mixture_of_experts" scripts/build.sh
    scripts/bench/plan_memory.py [FOLDER [RUNS [NAME...]]]     the programs' (build/bin), 3 runs, all configurations

Of each configuration: what `plan` calls "all", and the largest memory that runs of 60 steps have had, looked at every 20 ms:
memory that is no file's, shared memory and page tables, of a control group, where one can be made (as root), else of all
processes of the run (their shares). Prints a table; the ratio is the median's. Then a run of a step is allowed 1.05 of what
was planned, and one 0.95. Takes about an hour.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 0.02
STEPS = 60
SMALL = ["--global-batch", "4", "--micro-batch", "2", "--seq-len", "128"]
SHAPE = ["--vocab", "8192", "--layers", "6", "--dim", "512", "--heads", "8", "--seq-len", "256"]
WIDE = [*SHAPE, "--global-batch", "4", "--micro-batch", "4"]
WIDE_TWICE = [*SHAPE, "--global-batch", "8", "--micro-batch", "4"]  # passes, or ranks
TWO = ["--ranks", "2"]
EXPERTS = "experts 51M, bf16"  # of examples/mixture_of_experts, which stands beside zero_launch
CONFIGURATIONS = {
    "gpt2-2m": ["--preset", "gpt2-2m", *SMALL],
    "gpt2-2m, 2 ranks": ["--preset", "gpt2-2m", *SMALL, *TWO],
    "gpt2 27M": ["--model", "gpt2", *WIDE],
    "gpt2 27M, 2 ranks": ["--model", "gpt2", *WIDE_TWICE, *TWO],
    "gpt2 27M, split": ["--model", "gpt2", *WIDE, "--dtype", "bf16", "--master", "split"],
    "llama 30M, loss in chunks, 2 ranks": ["--model", "llama", *WIDE_TWICE, *TWO, "--loss-chunk", "128"],
    "llama 30M, recompute": ["--model", "llama", *WIDE, "--recompute", "unit"],
    "llama 30M, unit by unit": ["--model", "llama", *WIDE_TWICE, "--accumulate", "unit"],
    "gpt_neox 30M, 4 ranks": ["--model", "gpt_neox", *SHAPE, "--global-batch", "8", "--micro-batch", "2", "--ranks", "4"],
    "gptj-1m": ["--preset", "gptj-1m", *SMALL],
    EXPERTS: ["--dtype", "bf16", "--vocab", "257", "--global-batch", "4", "--micro-batch", "4", "--seq-len", "256"],
    "gpt2 117M": ["--preset", "gpt2-124m", "--vocab", "50257", "--global-batch", "1", "--micro-batch", "1", "--seq-len", "64"],
    "gpt2 117M, 2 ranks, bf16 moments": ["--preset", "gpt2-124m", "--vocab", "50257", "--global-batch", "2", "--micro-batch", "1",
                                          "--seq-len", "64", "--state-dtype", "bf16", *TWO],
}


def fields(path):
    """Its lines "name value" or "name: value kB"."""
    return {words[0].rstrip(":"): int(words[1]) for line in path.read_text().splitlines() if len(words := line.split()) >= 2 and words[1].isdigit()}


def page_tables(processes):
    total = 0
    for process in processes:
        try:
            total += 1024 * fields(Path(f"/proc/{process}/status"))["VmPTE"]
        except (OSError, KeyError):
            pass  # it has ended
    return total


class Group:
    """A control group for one run."""

    def __init__(self):
        self.is_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        names = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        own = next(path for _, controllers, path in names if controllers == ("" if self.is_v2 else "memory"))
        above = Path("/sys/fs/cgroup" if self.is_v2 else "/sys/fs/cgroup/memory" + own)
        self.folder = above / f"zero_plan_memory_{os.getpid()}"
        self.folder.mkdir()

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self):
        stat = fields(self.folder / "memory.stat")
        anonymous = stat["anon"] + stat["shmem"] if self.is_v2 else stat["total_rss"] + stat["total_shmem"]
        return anonymous + page_tables((self.folder / "cgroup.procs").read_text().split())

    def close(self):
        for _ in range(100):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.05)


class Shares:
    """Without such groups: all processes of the session that a run is started in."""

    def enter(self):
        os.setsid()

    def used(self):
        total = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(folder.name)) == self.child:
                    shares = fields(folder / "smaps_rollup")
                    total += 1024 * (shares["Pss_Anon"] + shares["Pss_Shmem"]) + page_tables([folder.name])
            except (OSError, KeyError):
                pass  # it has ended, or is no process
        return total

    def close(self):
        pass


def new_group():
    try:
        return Group()
    except (OSError, StopIteration):
        return Shares()


def planned(program, settings):
    text = subprocess.run([program, "plan", "--json", *settings], stdout=subprocess.PIPE, check=False, text=True).stdout
    return json.loads(text)


def run(program, settings, data, steps):
    """The exit code, the most memory in bytes, and the output."""
    group = new_group()
    try:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen([program, "train", *settings, "--data", data, "--out", Path(folder) / "run", "--steps",
                                      str(steps), "--save-every", "0"],
                                     stdout=output, stderr=subprocess.STDOUT, preexec_fn=group.enter)
            group.child, most = child.pid, 0
            while child.poll() is None:
                most = max(most, group.used())
                time.sleep(SECONDS)
            output.seek(0)
            return child.returncode, most, output.read()
    finally:
        group.close()


def with_limit(program, name, data, limit):
    """What becomes of a run of a step that is allowed so many bytes."""
    code, most, output = run(program, [*CONFIGURATIONS[name], "--host-memory", str(int(limit))], data, 1)
    if code == 0 and "memory may not suffice" not in output:
        return "runs"
    return "refused" if code == 3 and "memory does not suffice" in output else f"exit code {code}"


def table(folder, data, runs, names):
    print("| configuration | ranks | planned MiB | measured MiB | measured by planned | limit of 1.05 | of 0.95 |\n|---|---|---|---|---|---|---|")
    for name in names:
        program = folder / ("mixture_of_experts" if name == EXPERTS else "zero_launch")
        plan = planned(program, CONFIGURATIONS[name])
        peaks = []
        for _ in range(runs):
            code, most, output = run(program, CONFIGURATIONS[name], data, STEPS)
            if code:
                raise SystemExit(f"{name}: exit code {code}\n{output}")
            peaks.append(most)
        all_bytes, peak = plan["bytes_per_node"], statistics.median(peaks)
        print(f"| {name} | {plan['ranks_per_node']} | {all_bytes / 2**20:.0f} | {peak / 2**20:.0f} | {peak / all_bytes:.2f} | "
              f"{with_limit(program, name, data, 1.05 * all_bytes)} | {with_limit(program, name, data, 0.95 * all_bytes)} |", flush=True)


def main():
    programs = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bin"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    names = sys.argv[3:] or list(CONFIGURATIONS)
    if unknown := [name for name in names if name not in CONFIGURATIONS]:
        raise SystemExit(f"{unknown[0]!r} is none of: " + "; ".join(CONFIGURATIONS))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "text"
        data.write_text("All work and no play makes Jack a dull boy.\n" * 20000)
        table(programs, data, runs, names)


if __name__ == "__main__":
    main()
