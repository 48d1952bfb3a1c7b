"""A disk that is really full: a tmpfs with room for one checkpoint and a half, and then for more.

Mounted in a name space of its own, which this file is the program of, so that nothing stays mounted.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from program import Program
from run_state import fingerprint, state_of, touched_since
from stories import FOREIGN, MODEL, put_foreign
from trial import Reference, lost_before, missing_in, stuck_in, warnings_in

WORDS = [*MODEL, "--steps=2", "--keep=2"]


def can_mount(folder):
    try:
        words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)]
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def mount(folder, num_bytes, again=False):
    options = f"size={num_bytes}" + (",remount" if again else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def problems_on(program, ranks, folder):
    """Save 1 fits, save 2 does not; then it does."""
    whole = folder / "undisturbed/run"
    outcome = program.train(whole, ranks, WORDS).expect(0)
    reference = Reference(None, outcome.out, outcome.err, state_of(program, whole, []))
    disk = folder / "disk"
    disk.mkdir()
    mount(disk, bytes_of(whole / "step_000000000001") * 3 // 2)
    run = disk / "run"
    run.mkdir()
    put_foreign(run)
    others = fingerprint(run, FOREIGN)

    first = program.train(run, ranks, WORDS)
    problems = stuck_in(first, "run on the small disk")
    if first.code != 5 or not any("No space left" in line for line in warnings_in(first, reference)):
        problems.append(f"silent: exit code {first.code} on a full disk; it said {first.err}")
    if "\nsaved step 1 " not in first.out:
        problems.append("missed: even the first checkpoint did not fit")
    problems += lost_before(state_of(program, run, FOREIGN), announced=(1, 1))
    mount(disk, 1 << 30, again=True)
    again = program.train(run, ranks, WORDS)
    problems += stuck_in(again, "run with space again")
    if again.code != 0 or "\nresumed step 1 from" not in again.out:
        problems.append(f"lost: exit code {again.code} with space again: {again.err}")
    problems += missing_in(state_of(program, run, FOREIGN), reference)
    return problems + touched_since(others, run)


def run_full_disk(program, ranks, folder):
    """Problems, as trial.perform() has them; None: there is no way to mount a small disk here."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not can_mount(folder):
        return None
    facts = [program.build, program.data, program.timeout, ranks, folder]
    words = ["unshare", "-m", sys.executable, __file__, *map(str, facts)]
    return json.loads(subprocess.check_output(words, text=True).splitlines()[-1])


if __name__ == "__main__":
    build, data, timeout, ranks, folder = sys.argv[1:]
    print(json.dumps(problems_on(Program(Path(build), Path(data), float(timeout)), int(ranks), Path(folder))))
