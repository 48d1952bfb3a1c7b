#!/usr/bin/env python3
"""Ask a run to stop in each of its phases, while its output is read, is not read, or cannot be, and see it save and end.

Every pair of a phase and an output meets SIGTERM, SIGINT, SIGHUP and SIGUSR1. A run must end within --timeout: with 75 and a
sound checkpoint of its last step; or, before a step was done, with 130, or by the signal itself where the program was not
loaded yet. No process stays, and the file STOP does not stay.
"""

import argparse
import collections
import fcntl
import itertools
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from program import Program, processes_with, wait_until_gone
from run_state import metrics_of
from stories import MODEL, write_text

ROOT = Path(__file__).resolve().parent.parent.parent
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
# What a phase is made of: flags, and when it has come.
PHASES = {
    "loading": ((), lambda run, out: True),
    "in the first step": (("--delay=forward=300",), lambda run, out: "fresh start" in out()),
    "in a long step": (("--delay=adam=700",), lambda run, out: metrics_of(run)),
    "between short steps": ((), lambda run, out: len(metrics_of(run)) > 20),
    "saving": (("--save-every=1",), lambda run, out: len(metrics_of(run)) > 3),
    "in an evaluation": (("--eval-every=1", "--delay=forward=100", "--eval-samples=64"), lambda run, out: metrics_of(run)),
}


class Reader:
    """Reads what the program prints, until it stops to."""

    def __init__(self, source):
        self.source, self.text, self.is_reading = source, b"", True
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while self.is_reading:
            try:
                block = os.read(self.source, 4096)
            except OSError:
                return
            if not block:
                return
            self.text += block

    def out(self):
        return self.text.decode(errors="replace")


class Pipe:
    def __init__(self):
        self.ours, self.theirs = os.pipe()
        fcntl.fcntl(self.ours, fcntl.F_SETPIPE_SZ, 4096)
        self.reader = Reader(self.ours)

    def prepare(self):
        """In the program's process, before it is the program."""


class FullPipe(Pipe):
    def stop(self):
        """Fill it, through a description of its own: the program's stays one that waits."""
        self.reader.is_reading = False
        filler = os.open(f"/proc/self/fd/{self.theirs}", os.O_WRONLY | os.O_NONBLOCK)
        while self.reader.thread.is_alive() or self.has_room(filler):
            self.has_room(filler)
        os.close(filler)

    @staticmethod
    def has_room(filler):
        try:
            return os.write(filler, b"x" * 4096) > 0
        except BlockingIOError:
            return False


class ReadPipe(Pipe):
    def stop(self):
        pass


class BrokenPipe(Pipe):
    def stop(self):
        self.reader.is_reading = False
        os.write(self.theirs, b"x")  # wakes the reader
        self.reader.thread.join()
        os.close(self.ours)


class Terminal:
    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.reader = Reader(self.ours)

    def prepare(self):
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)


class StoppedTerminal(Terminal):
    def stop(self):
        """As Ctrl-S does."""
        termios.tcflow(self.theirs, termios.TCOOFF)


class ClosedTerminal(Terminal):
    def stop(self):
        self.reader.is_reading = False
        os.write(self.theirs, b"x\n")
        self.reader.thread.join()
        os.close(self.ours)


OUTPUTS = {"a reader": ReadPipe, "a full pipe": FullPipe, "no reader": BrokenPipe, "a stopped terminal": StoppedTerminal,
           "a closed terminal": ClosedTerminal}


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a signal of each phase and output")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60, help="seconds from the signal to the end")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    return parser.parse_args()


def wait_for(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def stop_run(program, run, ranks, phase, output, order):
    """The exit code, None when it did not end, and what was printed."""
    flags, has_come = PHASES[phase]
    words = [word for word in MODEL if not word.startswith("--save-every")]
    words += ["--steps=100000000", "--eval-data", program.data, *flags]
    command = program.command(run, ranks, words)
    end = output()
    process = subprocess.Popen(command, env=os.environ, stdin=subprocess.DEVNULL, stdout=end.theirs, stderr=end.theirs,
                               start_new_session=True, preexec_fn=end.prepare)
    if not wait_for(lambda: has_come(run, end.reader.out), process):
        print(f"{phase} never came: {end.reader.out()}")
    end.stop()
    process.send_signal(order)
    try:
        code = process.wait(timeout=program.timeout)
    except subprocess.TimeoutExpired:
        Program.end(processes_with(run))
        process.kill()
        process.wait()
        code = None
    os.close(end.theirs)
    return code, end.reader.out()


def problems_of(program, run, code):
    steps = metrics_of(run)
    problems = []
    if code == 75:
        problems += program.problems_of([run / f"step_{steps[-1] if steps else 0:012}"])
    elif code is None:
        problems.append("did not end")
    elif code != 130 and (steps or -code not in SIGNALS):
        problems.append(f"code {code}")
    elif steps:
        problems.append(f"code {code}, though step {steps[-1]} was done")
    if (run / "STOP").exists():
        problems.append("the file STOP stays")
    if wait_until_gone(run, seconds=5):
        problems.append("processes stayed")
        Program.end(processes_with(run))
    return [problem for problem in problems if problem]


def trials_of(options):
    pairs = itertools.product(PHASES, OUTPUTS)
    for number, (phase, output) in enumerate(pairs):
        signals = [SIGNALS[number % len(SIGNALS)]] if options.short else SIGNALS
        yield from ((phase, output, order) for order in signals)


def print_table(rows):
    print(f"| phase | {' | '.join(OUTPUTS)} |\n|---{'|---' * len(OUTPUTS)}|")
    for phase in PHASES:
        print(f"| {phase} | " + " | ".join(rows[phase, output] for output in OUTPUTS) + " |")


def main():
    options = options_of()
    rows, counts, num_bad = collections.defaultdict(str), collections.defaultdict(collections.Counter), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = Program(options.build.resolve(), folder / "text.txt", options.timeout)
        write_text(program.data)
        for number, (phase, output, order) in enumerate(trials_of(options)):
            run = folder / f"run-{number}-"
            code, out = stop_run(program, run, options.ranks, phase, OUTPUTS[output], order)
            problems = problems_of(program, run, code)
            num_bad += bool(problems)
            counts[phase, output]["bad" if problems else "saved" if code == 75 else "nothing to save"] += 1
            if problems:
                print(f"{phase}, {output}, {order.name}: {'; '.join(problems)}\n{out}")
    for pair, counter in counts.items():
        rows[pair] = ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))
    print_table(rows)
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
