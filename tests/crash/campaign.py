#!/usr/bin/env python3
"""Disturb a small training run before every call that it makes on its folder, run it again, and look.

Faults: kill (SIGKILL before the call), tear (SIGKILL in the middle of a write), eio (the call fails once), enospc (from
this call on, whatever needs space fails). After each, the same command runs without a fault and must end as a run that
nothing disturbed, bit for bit. What is counted:

  lost     an announced checkpoint that is not whole, or an end that is not the undisturbed one
  silent   a failed save without a message and exit code 5, or another difference without a warning
  stuck    a run that did not end within --timeout, or left a process
  foreign  somebody else's file in the folder that is not as it was
  missed   a fault that met no call: the campaign's own mistake

Examples:
  scripts/crash_campaign.sh                               all calls, but three of neighbouring writes to one file
  scripts/crash_campaign.sh --every                       all calls
  scripts/crash_campaign.sh --short                       a sample; some three minutes
  scripts/crash_campaign.sh --ranks 1 --kind kill         a part
  scripts/crash_campaign.sh --continue                    go on where it stopped
  scripts/crash_campaign.sh --only NAME                   one trial, as a bad line names it; its folder is kept
  scripts/crash_campaign.sh --check                       does every call go through the library? Asks strace
"""

import argparse
import concurrent.futures
import fcntl
import shutil
import signal
import sys
import time
from pathlib import Path

from escapes import report_escapes
from full_disk import run_full_disk
from plan import KINDS, calls_of, groups_of, trials_of
from program import Program
from results import Results, print_table
from run_state import state_of
from stories import FOREIGN, SHAPE, STORIES, prepare, write_text
from trial import Reference, perform

ROOT = Path(__file__).resolve().parent.parent.parent
FULL_DISK = "full-disk"


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a sample over all kinds of calls, the same every time")
    parser.add_argument("--every", action="store_true", help="also every one of neighbouring writes to the same file")
    parser.add_argument("--check", action="store_true", help="compare the calls with what strace sees, and leave")
    parser.add_argument("--ranks", type=int, choices=[1, 2])
    parser.add_argument("--kind", choices=[*KINDS, FULL_DISK])
    parser.add_argument("--story", choices=[story.name for story in STORIES])
    parser.add_argument("--only", metavar="NAME", help="one trial")
    parser.add_argument("--continue", dest="goes_on", action="store_true", help="keep the results in --folder")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--folder", type=Path, help="for the runs; default: crash_campaign in the build's folder")
    return parser.parse_args()


def hold_alone(folder):
    """Keep a second campaign out of the folder for as long as the result is kept."""
    lock = open(folder / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"crash campaign: another one works in {folder}; --folder names another place")
    return lock


def make_reference(program, story, ranks, exchange, folder):
    """Run the story without a fault, once per rank to log; returns the reference and the calls of each rank."""
    template = prepare(program, story, ranks, folder)
    calls = []
    for rank in range(ranks):
        run, log = folder / f"undisturbed{rank}", folder / f"calls{rank}"
        shutil.copytree(template, run)
        faults = {"FAULT_LOG": log, "FAULT_RANK": rank if ranks > 1 else ""}
        outcome = program.train(run, ranks, story.words(), faults | ({} if exchange else {"FAULT_NO_EXCHANGE": 1}))
        outcome.expect(0)
        calls.append(calls_of(log))
    state = state_of(program, run, FOREIGN)
    if state.newest() != story.saves[-1]:
        sys.exit(f"crash campaign: without a fault, {story.name} ends at {state.newest()}")
    return Reference(template, outcome.out, outcome.err, state), calls


def run_trials(program, trials, references, results, options):
    scratch, begin = options.folder / "trials", time.monotonic()
    waiting = [trial for trial in trials if trial.name() not in results.done]

    def start(trial):
        reference = references[trial.story.name, trial.ranks, trial.exchange]
        return trial, perform(program, trial, reference, scratch, keeps=bool(options.only))

    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        futures = [pool.submit(start, trial) for trial in waiting]
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            trial, problems = future.result()
            results.add(trial.name(), trial.group(), trial.call, problems)
            if count % 100 == 0 or count == len(waiting):
                seconds = time.monotonic() - begin
                print(f"{count} of {len(waiting)} trials, {seconds:.0f} s", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # the two that are under way end by themselves


def run_full_disks(program, results, options):
    """The names of these trials."""
    wanted = set()
    for ranks in (1, 2):
        name = f"{FULL_DISK}-ranks{ranks}"
        is_meant = options.kind in (None, FULL_DISK) and options.ranks in (None, ranks) and options.story is None
        if not is_meant or options.only not in (None, name):
            continue
        wanted.add(name)
        if name in results.done:
            continue
        problems = run_full_disk(program, ranks, options.folder / "trials" / name)
        if problems is None:
            print(f"{name}: skipped, as no tmpfs can be mounted here")
        else:
            results.add(name, ("full disk", ranks, "enospc", True), "a small tmpfs", problems)
    return wanted


def main():
    options = options_of()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # trials that have not begun do not begin, as at Ctrl-C
    # One trial does not touch what a campaign has found.
    options.folder = (options.folder or options.build / ("crash_trial" if options.only else "crash_campaign")).resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    lock = hold_alone(options.folder)
    for part in ("trials", "references"):
        shutil.rmtree(options.folder / part, ignore_errors=True)
    program = Program(options.build.resolve(), options.folder / "text.txt", options.timeout)
    write_text(program.data)
    shutil.rmtree(program.base, ignore_errors=True)
    program.start([program.launch, "seed", "--out", program.base, *SHAPE], program.base).expect(0)
    if options.check:
        return report_escapes(program, options.folder)

    references, num_calls, trials = {}, {}, []
    for story, ranks, exchange in groups_of(options) if options.kind != FULL_DISK else ():
        key = (story.name, ranks, exchange)
        folder = options.folder / "references" / story.prefix(ranks, exchange)
        references[key], calls = make_reference(program, story, ranks, exchange, folder)
        num_calls[key] = sum(map(len, calls))
        trials += trials_of(story, ranks, exchange, calls, options)
    results = Results(options.folder / "results.jsonl", options.goes_on)
    run_trials(program, trials, references, results, options)
    wanted = {trial.name() for trial in trials} | run_full_disks(program, results, options)
    if not wanted:
        sys.exit("crash campaign: there is no such trial")
    if options.only:
        print(f"the folder, with the output of both runs: {options.folder / 'trials' / options.only}")
    is_well = print_table(results, num_calls, wanted)
    lock.close()
    return 0 if is_well else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
