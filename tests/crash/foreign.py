#!/usr/bin/env python3
"""Put things of others into every place where the program writes, and see that none is changed, removed or followed.

In each trial one thing (a file, a link to a file or folder or to nowhere, a pipe, a socket, a folder, a device) has a
name that the program needs. The program may refuse, with a message that names it, or go on beside it. With --kills it is
also killed before so many of the calls that it makes on its folder, and started again each time.

  changed   the thing is not what it was (records may be appended to a log)
  removed   it is gone
  followed  something behind a link is not what it was, or is new
  stuck     the program did not end within --timeout, or left a process
  silent    another exit code than those of refusals, or a refusal that does not name the place
"""

import argparse
import collections
import dataclasses
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from plan import calls_of
from program import Program
from stories import MODEL, write_text
from things import KINDS, is_appended, look_at, make_outside

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPORARY = "0123456789abcdef"
COLUMNS = ("changed", "removed", "followed", "stuck", "silent")
REFUSALS = (2, 3, 5)


@dataclasses.dataclass(frozen=True)
class Place:
    """`path` is what the thing is called, in the folder of a trial; `words` start the program there."""
    name: str
    path: str
    words: tuple
    without: tuple = ()  # kinds that are the program's own there, or are meant to be used
    appends: bool = False


TRAIN = ("train", "--data", "{data}", "--out", "{folder}/run", *(word for word in MODEL if "save-every" not in word),
         "--steps=2", "--save-every=1", "--keep=1")
LOGS = (*TRAIN, "--metrics=jsonl,csv,tensorboard")
EXPORT = ("export", "--from", "{folder}/old", "--to", "{folder}/model")

PLACES = [
    Place("--out", "run", TRAIN, without=("folder", "link to a folder")),
    Place("run.lock", "run/run.lock", TRAIN),
    Place("step_N", "run/step_000000000001", TRAIN),
    Place("a temporary name", f"run/zero.tmp.000000000001.{TEMPORARY}", TRAIN, without=("file",)),
    Place("in a temporary folder", f"run/zero.tmp.000000000002.{TEMPORARY}/shard_00000_of_00001.h5", TRAIN, without=("file",)),
    Place("latest", "run/latest", TRAIN),
    Place("STOP", "run/STOP", TRAIN, without=("file",)),
    Place("metrics.jsonl", "run/metrics.jsonl", LOGS, appends=True),
    Place("metrics.csv", "run/metrics.csv", LOGS, appends=True),
    Place("tensorboard", "run/tensorboard", LOGS, without=("folder", "link to a folder")),
    Place("--trace", "run/trace_00000.json", (*TRAIN, "--trace=steps=1:1")),
    Place("--init-report", "list.json", (*TRAIN, "--init-report", "{folder}/list.json")),
    Place("--trace-comm", "calls", (*TRAIN, "--trace-comm", "{folder}/calls")),
    Place("--dump-state", "state/rank_00000.bin", (*TRAIN, "--dump-state", "{folder}/state")),
    Place("report", "old/report.html", ("report", "{folder}/old")),
    Place("report --to", "page", ("report", "{folder}/old", "--to", "{folder}/page")),
    Place("export --to", "model", EXPORT),
    Place("beside export's target", f"model.zero.tmp.export.{TEMPORARY}", EXPORT),
    Place("export --replace", "model/model.safetensors", (*EXPORT, "--replace"), without=("file",)),
    Place("selftest --to", "page", ("selftest", "--to", "{folder}/page")),
]
# Two of each kind of a run's places, for a check of a few seconds.
SHORT = {"run.lock": ("dangling link", "pipe"), "step_N": ("socket", "link to a file"), "latest": ("link to a file", "folder"),
         "a temporary name": ("dangling link", "pipe"), "STOP": ("dangling link",), "metrics.jsonl": ("link to a file",),
         "export --to": ("dangling link", "file"), "report": ("link to a file", "pipe")}


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few places and kinds")
    parser.add_argument("--kills", type=int, default=0, help="kills of each trial of train, spread over its calls")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one start")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    return parser.parse_args()


class Trial:
    def __init__(self, program, place, kind, template, folder):
        self.program, self.place, self.kind, self.folder = program, place, kind, folder
        self.thing, self.outside = folder / place.path, folder / "outside"
        folder.mkdir()
        make_outside(self.outside)
        shutil.copytree(template, folder / "old")
        self.thing.parent.mkdir(parents=True, exist_ok=True)
        KINDS[kind](self.thing, self.outside)
        self.before = look_at(self.thing), look_at(self.outside)

    def start(self, faults=None):
        words = [word.format(data=self.program.data, folder=self.folder) for word in self.place.words]
        variables = self.program.variables(self.folder, 1, faults) if faults else {}
        return self.program.start([self.program.launch, *words], self.folder, variables)

    def problems(self, outcome, is_killed=False):
        thing, outside = look_at(self.thing), look_at(self.outside)
        found = []
        if thing is None:
            found.append("removed")
        elif thing != self.before[0] and not (self.place.appends and is_appended(self.before[0], thing)):
            found.append("changed")
        if outside != self.before[1]:
            found.append("followed")
        if outcome.is_late or outcome.left:
            found.append("stuck")
        names_it = self.thing.name in outcome.err or self.place.path.split("/")[0] in outcome.err
        is_well = outcome.code == 0 or (outcome.code in REFUSALS and names_it)
        return found + ([] if is_killed or is_well else ["silent"])


def calls_to_kill(trial, count):
    """Numbers of calls that change something, spread over those of an undisturbed run."""
    log = trial.folder.with_name(trial.folder.name + ".calls")
    trial.start({"FAULT_LOG": log})
    numbers = [call[0] for call in calls_of(log) if call[2] != "looks"] if log.exists() else []
    return numbers[::max(1, len(numbers) // count)][:count]


def perform(make_trial, kills):
    """The exit code without a kill, and all problems."""
    trial = make_trial()
    outcome = trial.start()
    problems = trial.problems(outcome)
    if kills and trial.place.words[0] == "train":
        for number in calls_to_kill(make_trial(), kills):
            killed = make_trial()
            problems += killed.problems(killed.start({"FAULT_AT": number, "FAULT_KIND": "kill"}), is_killed=True)
            problems += killed.problems(killed.start())
    for problem in sorted(set(problems)):
        print(f"{problem}: {trial.kind} as {trial.place.name}: code {outcome.code}\n{outcome.err}")
    return outcome.code, set(problems)


def trials_of(options):
    for place in PLACES:
        kinds = [kind for kind in KINDS if kind not in place.without]
        if options.short:
            kinds = SHORT.get(place.name, ())
        yield from ((place, kind) for kind in kinds)


def print_table(rows):
    print("| place | trials | refused | went on | " + " | ".join(COLUMNS) + " |")
    print("|---" * (4 + len(COLUMNS)) + "|")
    total = collections.Counter()
    for name, counts in rows.items():
        total.update(counts)
        print(f"| {name} | " + " | ".join(str(counts[key]) for key in ("trials", "refused", "went on", *COLUMNS)) + " |")
    print("| all | " + " | ".join(str(total[key]) for key in ("trials", "refused", "went on", *COLUMNS)) + " |")


def main():
    options = options_of()
    rows = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = Program(options.build.resolve(), folder / "text.txt", options.timeout)
        write_text(program.data)
        program.train(folder / "old", 1, [*MODEL, "--steps=1"]).expect(0)
        numbers = itertools.count()
        for place, kind in trials_of(options):
            try:
                code, problems = perform(lambda: Trial(program, place, kind, folder / "old", folder / f"trial{next(numbers)}"),
                                         options.kills)
            except PermissionError:
                print(f"{kind} as {place.name}: skipped, as it cannot be made here")
                continue
            rows[place.name].update(["trials", "refused" if code else "went on", *problems])
    print_table(rows)
    return 1 if any(counts[key] for counts in rows.values() for key in COLUMNS) else 0


if __name__ == "__main__":
    sys.exit(main())
