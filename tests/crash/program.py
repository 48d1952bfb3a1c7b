"""Start zero_launch, perhaps with a fault, and see it end."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str
    is_late: bool = False
    left: tuple = ()  # processes that were still there

    def expect(self, code):
        """Leave, where no fault was ordered: then a campaign tells nothing."""
        if self.code != code or self.is_late:
            sys.exit(f"crash campaign: without a fault, a run ended with {self.code}, not {code}\n{self.out}{self.err}")
        return self


def processes_with(word):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(word) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass  # it ended meanwhile
    return found


def wait_until_gone(word, seconds):
    end = time.monotonic() + seconds
    while (left := processes_with(word)) and time.monotonic() < end:
        time.sleep(0.05)
    return tuple(left)


class Program:
    """The built program, its data, and the library that brings the faults."""

    def __init__(self, build, data, timeout):
        self.launch = build / "bin/zero_launch"
        self.faults = build / "tests/libcrash_faults.so"
        self.verifier = build / "tests/verify_checkpoints"
        self.build, self.data, self.timeout = build, data, timeout
        self.base = data.parent / "base"  # of a model, in the place of the word BASE

    def command(self, run, ranks, words):
        start = [self.launch, "train", "--data", self.data, "--out", run, *words]
        return [str(word).replace("=BASE", f"={self.base}") for word in start + (["--ranks", ranks] if ranks > 1 else [])]

    def variables(self, run, ranks, faults):
        """The fault meets rank 0 where the caller names none."""
        rank = {"FAULT_RANK": "0"} if ranks > 1 else {}
        ordered = {name: str(value) for name, value in faults.items()}
        return {"LD_PRELOAD": str(self.faults), "FAULT_FOLDER": str(run)} | rank | ordered

    def train(self, run, ranks, words, faults=None):
        ordered = {} if faults is None else self.variables(run, ranks, faults)
        return self.start(self.command(run, ranks, words), run, ordered)

    def start(self, command, run, variables=None):
        """Wait for a command, and for all processes that name `run`."""
        process = subprocess.Popen([str(word) for word in command], env=os.environ | (variables or {}), text=True,
                                   errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        is_late = False
        try:
            out, err = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            is_late = True
            os.killpg(process.pid, signal.SIGKILL)
            self.end(processes_with(run))
            out, err = process.communicate()
        left = wait_until_gone(run, seconds=5)
        self.end(left)
        code = process.returncode
        return Outcome(code if code >= 0 else 128 - code, out, err, is_late, left)

    @staticmethod
    def end(processes):
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def problems_of(self, checkpoints):
        """What is wrong with each, by every byte; an empty text: nothing."""
        if not checkpoints:
            return []
        words = [self.verifier, *checkpoints]
        return subprocess.check_output([str(word) for word in words], text=True).split("\n")[:len(checkpoints)]
