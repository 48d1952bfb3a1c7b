"""Does every call on the run's folder go through the library of faults? strace sees the calls themselves."""

import collections
import re
import shutil
import subprocess

from stories import STORIES, prepare

# What changes or syncs something. Listings open and close folders inside of the C library, which harms nobody.
TRACED = ["write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate", "fsync",
          "fdatasync", "sync_file_range", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat",
          "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "copy_file_range", "sendfile", "mknod", "chmod", "fchmod",
          "creat"]
CALL = re.compile(r"^(?:\[pid +)?\d*\]? *(\w+)\((.*)$")


def seen_by_strace(trace, run):
    counts = collections.Counter()
    for line in trace.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if not match or f"{run}" not in line.split(" = ")[0]:
            continue
        name, arguments = match.groups()
        if name in ("open", "openat"):
            if "O_CREAT" in arguments:
                counts["open for writing"] += 1
        else:
            counts[name.removesuffix("64")] += 1
    return counts


def seen_by_library(log):
    counts = collections.Counter()
    for _, name, what, _, _ in (line.split("\t") for line in log.read_text().splitlines()):
        if name.startswith("open"):
            counts["open for writing"] += what == "grows"
        elif what != "looks":
            counts[name] += 1
    return +counts


def report_escapes(program, folder):
    """Compare both for every story; the exit code."""
    if not shutil.which("strace"):
        print("crash campaign: strace is not there, so the calls are not compared")
        return 0
    code = 0
    for story in STORIES:
        place = folder / "check" / story.name
        shutil.rmtree(place, ignore_errors=True)
        run = prepare(program, story, 1, place)
        trace, log = place / "trace", place / "calls"
        tracer = ["strace", "-f", "-y", "-qq", "-o", str(trace), "-e", "trace=open,openat," + ",".join(TRACED)]
        variables = [f"--env={name}={value}" for name, value in program.variables(run, 1, {"FAULT_LOG": log}).items()]
        subprocess.run([*tracer, *variables, *program.command(run, 1, story.words())], capture_output=True)
        traced, counted = seen_by_strace(trace, run), seen_by_library(log)
        same = traced == counted
        code |= not same
        print(f"{story.name}: {sum(counted.values())} calls, " + ("all" if same else f"not all: {traced} != {counted}"))
    return code
