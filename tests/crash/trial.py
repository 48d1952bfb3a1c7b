"""One fault in one run, the same command again, and what must hold."""

import dataclasses
import re
import shutil
from pathlib import Path

from run_state import fingerprint, state_of, touched_since
from stories import FOREIGN, Story


@dataclasses.dataclass(frozen=True)
class Trial:
    story: Story
    ranks: int
    kind: str
    exchange: bool
    rank: int  # that meets the fault
    at: int  # the number of the call
    what: str  # it does: looks, changes, grows, syncs
    call: str  # for people

    def group(self):
        return self.story.name, self.ranks, self.kind, self.exchange

    def name(self):
        return f"{self.story.prefix(self.ranks, self.exchange)}{self.kind}-rank{self.rank}-call{self.at}"

    def faults(self, folder):
        no_exchange = {} if self.exchange else {"FAULT_NO_EXCHANGE": 1}
        return no_exchange | {"FAULT_RANK": self.rank if self.ranks > 1 else "", "FAULT_AT": self.at,
                              "FAULT_KIND": self.kind, "FAULT_LOG": folder / "calls"}

    def is_error(self):
        return self.kind in ("eio", "enospc")


@dataclasses.dataclass
class Reference:
    """The same run without a fault."""
    template: Path
    out: str
    err: str
    state: object


def warnings_in(outcome, reference):
    """Lines of the program that a run without a fault does not print."""
    known = set(reference.err.splitlines()) | set(reference.out.splitlines())
    lines = outcome.err.splitlines() + outcome.out.splitlines()
    said = [line for line in lines if line.startswith(("zero: ", "passed over: ", "set aside "))]
    return [line for line in said if line not in known]


def announced_in(outcome, story):
    """(step, batches) of the last save that the run told about."""
    steps = [int(step) for step in re.findall(r"^saved step (\d+) ", outcome.out, flags=re.MULTILINE)]
    if not steps:
        return story.begins_at
    return story.saves[len(steps) - 1] if story.saves_one_step() else (steps[-1], steps[-1])


def lost_before(state, announced):
    """A checkpoint at the last announced save, or a later one, must be whole."""
    if state.newest() >= announced:
        return []
    return [f"lost: {announced} was announced and must be whole; there is {state.whole}, {state.others}"]


def missing_in(state, reference):
    """Checkpoints of the undisturbed run that this one lacks, or has with other values."""
    return [f"lost: {name} should be {at}, is {state.whole.get(name) or state.others.get(name, 'missing')}"
            for name, at in reference.state.whole.items() if state.whole.get(name) != at]


def untold_in(state, trial, reference):
    """What else differs from the undisturbed run. Only an error leaves a process that could have told."""
    expected = reference.state
    found = {what: (getattr(state, what), getattr(expected, what)) for what in ("others", "leftovers", "metrics")}
    if trial.is_error():
        found["latest"] = (state.latest, expected.latest)
    elif state.latest not in state.names():
        found["latest"] = (state.latest, "a whole one")
    if trial.is_error() and trial.what != "looks":  # who cannot look at a checkpoint keeps one more
        found["checkpoints"] = (state.names(), expected.names())
    return [f"silent: {what} should be {should}, is {is_}, and nothing was said"
            for what, (is_, should) in found.items() if is_ != should]


def silence_in(outcome, state, trial, reference, warnings):
    """An error either changed nothing, or was told; a save that failed is not told by a warning alone."""
    if outcome.code == 0:
        newest = reference.state.newest()
        if state.newest() != newest:
            return [f"silent: exit code {outcome.code}, though {newest} is not saved"]
        if warnings:
            return []
        # What has a temporary name is the next run's to remove.
        return untold_in(dataclasses.replace(state, leftovers=reference.state.leftovers), trial, reference)
    if outcome.code != 5 or not any(line.startswith("zero: ") for line in warnings):
        return [f"silent: exit code {outcome.code}, and it said {warnings}"]
    return []


def stuck_in(outcome, which):
    problems = [f"stuck: the {which} did not end in time"] if outcome.is_late else []
    return problems + ([f"stuck: the {which} left processes {outcome.left}"] if outcome.left else [])


def has_met_fault(folder):
    calls = folder / "calls"
    return calls.exists() and any(not line.endswith("\t-") for line in calls.read_text().splitlines())


def perform(program, trial, reference, scratch, keeps=False):
    """Problems, each beginning with lost, silent, stuck, foreign or missed. Without any, the folder goes."""
    folder = scratch / trial.name()
    shutil.rmtree(folder, ignore_errors=True)
    run = folder / "run"
    shutil.copytree(reference.template, run)
    others = fingerprint(run, FOREIGN)
    story = trial.story

    first = program.train(run, trial.ranks, story.words(), trial.faults(folder))
    (folder / "first.txt").write_text(f"exit code {first.code}\n{first.out}{first.err}")
    problems = [] if has_met_fault(folder) else [f"missed: call {trial.at} was never made"]
    problems += stuck_in(first, "run with the fault")
    warnings = warnings_in(first, reference)
    state = state_of(program, run, FOREIGN)
    problems += lost_before(state, announced_in(first, story))
    if trial.is_error():
        problems += silence_in(first, state, trial, reference, warnings)
    elif first.code == 0:
        problems += [f"silent: exit code {first.code} of a killed run"]

    calm = {} if trial.exchange else {"FAULT_NO_EXCHANGE": 1}
    again = program.train(run, trial.ranks, story.words(), calm)
    (folder / "again.txt").write_text(f"exit code {again.code}\n{again.out}{again.err}")
    problems += stuck_in(again, "run after it")
    if again.code != 0:
        problems.append(f"lost: the same command again ends with {again.code}")
    state = state_of(program, run, FOREIGN)
    problems += missing_in(state, reference)
    if not trial.is_error() or not warnings:
        problems += [problem for problem in untold_in(state, trial, reference) if problem not in problems]
    problems += touched_since(others, run)
    if not problems and not keeps:
        shutil.rmtree(folder)
    return problems
