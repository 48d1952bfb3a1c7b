"""What lies in a run's folder, as its owner would see it."""

import dataclasses
import hashlib
import json
import re

STEP = re.compile(r"step_\d{12}")
REPLACED = re.compile(r"zero\.tmp\.replaced\d{12}\.[0-9a-f]{16}")  # gets its name back from the next run
OWN = re.compile(r"zero\.tmp\.[a-z0-9]+\.[0-9a-f]{16}|run\.lock")


@dataclasses.dataclass
class RunState:
    whole: dict  # name -> (step, batches, digest of its values and its place in the data)
    others: dict  # name -> what is wrong with it, or "set aside"
    leftovers: list
    latest: str
    metrics: list  # the number of each step that it tells about

    def names(self):
        """Of the checkpoints; what was replaced and is still there is among the leftovers."""
        return sorted(name for name in self.whole if STEP.fullmatch(name))

    def newest(self):
        return max((at[:2] for at in self.whole.values()), default=(0, 0))


def place_of(folder):
    """(step, batches, digest) of a sound checkpoint."""
    manifest = json.loads((folder / "manifest.json").read_text())
    # Settings name the run's folder, which is another one in every trial.
    content = {key: manifest[key] for key in ("step", "world_size", "tensors", "aliases", "position")}
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return manifest["step"], manifest["position"]["num_batches"], digest[:16]


def metrics_of(run):
    """Numbers of steps; a torn last line is none, as readers are told."""
    path, steps = run / "metrics.jsonl", []
    lines = path.read_text(errors="replace").split("\n")[:-1] if path.is_file() else []
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            record = {"type": "step", "step": "no record"}
        if record["type"] == "step":
            steps.append(record["step"])
    return steps


def state_of(program, run, foreign):
    names = sorted(path.name for path in run.iterdir()) if run.exists() else []
    folders = [name for name in names if (run / name).is_dir() and (STEP.fullmatch(name) or REPLACED.fullmatch(name))]
    whole, others = {}, {name: "set aside" for name in names if re.match(STEP.pattern + r"\.", name)}
    for name, problem in zip(folders, program.problems_of([run / name for name in folders])):
        if not problem:
            whole[name] = place_of(run / name)
        elif STEP.fullmatch(name):
            others[name] = problem
    strangers = {name.split("/")[0] for name in foreign}
    leftovers = [name for name in names if OWN.fullmatch(name) and name not in strangers]
    latest = (run / "latest").read_text().strip() if (run / "latest").is_file() else ""
    return RunState(whole, others, leftovers, latest, metrics_of(run))


def fingerprint(run, names):
    """Of other people's files: what they hold, and that they are still the same files."""
    def of(path):
        status = path.lstat()
        return path.read_text(), status.st_ino, status.st_mtime_ns
    return {name: of(run / name) if (run / name).is_file() else None for name in names}


def touched_since(was, run):
    """Problems: which of these files are no longer what their fingerprint says."""
    return [f"foreign: {name} was touched" for name, mark in fingerprint(run, was).items() if mark != was[name]]
