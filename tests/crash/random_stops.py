#!/usr/bin/env python3
"""Stop a run of two ranks at random times, again and again, and see that each stop keeps the last finished step.

The same command goes on each time, until it has been stopped --stops times, by Ctrl-C, SIGTERM or a closed terminal. A
stop behind the first step must end with 75 and a sound checkpoint of the last step that the metrics tell about; one
before a step is done, with 130 and a line that says that nothing was lost. No process stays.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import Program, processes_with, wait_until_gone
from run_state import metrics_of
from stories import MODEL, write_text

ROOT = Path(__file__).resolve().parent.parent.parent
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=4, help="the longest time before a stop")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    return parser.parse_args()


def stop_once(program, run, seconds, order):
    words = [word for word in MODEL if not word.startswith("--save-every")] + ["--steps=100000000"]
    process = subprocess.Popen(program.command(run, 2, words), env=os.environ, text=True, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(seconds)
    process.send_signal(order)
    try:
        out, err = process.communicate(timeout=program.timeout)
    except subprocess.TimeoutExpired:
        Program.end(processes_with(run))
        process.kill()
        return None, *process.communicate()
    return process.returncode, out, err


def problems_of_stop(program, run, code, err, last_before):
    steps = metrics_of(run)
    last = steps[-1] if steps else 0
    problems = []
    if code == 75:
        folder = run / f"step_{last:012}"
        problems += program.problems_of([folder])
    elif code == 130:
        if last > last_before:
            problems.append(f"code 130, though step {last} was done")
        if "nothing was lost" not in err:
            problems.append("code 130 without the line that nothing was lost")
    else:
        problems.append("did not end" if code is None else f"code {code}")
    if steps != list(range(1, last + 1)):
        problems.append("steps are missing or twice in the metrics")
    if wait_until_gone(run, seconds=5):
        problems.append("processes stayed")
    return [problem for problem in problems if problem], last


def main():
    options = options_of()
    random.seed(options.seed)
    saved, unbegun, num_bad, last = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        run, data = Path(folder) / "run", Path(folder) / "text.txt"
        write_text(data)
        program = Program(options.build.resolve(), data, timeout=60)
        for number in range(1, options.stops + 1):
            seconds, order = random.uniform(0, options.seconds), random.choice(SIGNALS)
            code, _, err = stop_once(program, run, seconds, order)
            problems, last = problems_of_stop(program, run, code, err, last)
            saved, unbegun = saved + (code == 75), unbegun + (code == 130)
            if problems:
                num_bad += 1
                print(f"stop {number}, {order.name} after {seconds:.2f} s: {'; '.join(problems)}\n{err}")
                Program.end(processes_with(run))
    print(f"{options.stops} stops at random times, {last} steps: {saved} saved (75), {unbegun} before a step was done "
          f"(130), {num_bad} bad")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
