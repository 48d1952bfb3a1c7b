"""A training of seconds, and what it leaves."""

import json
import os
import sys
import unittest
from pathlib import Path

import private_world
from private_world import FOLDER

PROGRAM, *CHOSEN = sys.argv[1:] or ["build/bin/zero_launch"]
PROGRAM = Path(PROGRAM).absolute()
SETTINGS = {"data": FOLDER / "data.txt", "layers": 2, "dim": 32, "heads": 2, "seq_len": 16, "global_batch": 8,
            "micro_batch": 2, "threads": 1, "adam_threads": 1, "schedule": "constant", "eval_fraction": 0}


def prepare():
    """Write the data, and say to the environment what a person would on this machine."""
    SETTINGS["data"].write_text("".join("the quick brown fox "[i * i % 17] for i in range(20000)))
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    os.environ["PATH"] = f"{PROGRAM.parent}:{os.environ['PATH']}"
    for key, value in SETTINGS.items():
        os.environ["ZERO_" + key.upper()] = str(value)


def flags(out, steps=100000, **more):
    """Of zero_launch train; the other settings stand in the environment."""
    settings = {"out": FOLDER / out, "steps": steps} | more
    return [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]


def records(out, kind):
    path = FOLDER / out / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [record for record in map(json.loads, lines) if record["type"] == kind]


def steps(out):
    return [record["step"] for record in records(out, "step")]


def wait_for_step(out, step):
    private_world.wait_for(lambda: max(steps(out), default=0) >= step, f"step {step}", 60)


def checkpoints(out):
    return sorted(path.name for path in (FOLDER / out).glob("step_*"))


def dump(name):
    """The flag that writes masters and moments to a folder of this name."""
    return {"dump_state": FOLDER / name}


class Case(unittest.TestCase):
    """A test whose run has its name."""

    def setUp(self):
        self.out = self.id().partition(".")[2]

    def assert_same_numbers(self, whole, parts):
        """Every step once, with the same losses, and the same masters and moments at the end."""
        self.assertEqual([(r["step"], r["loss"]) for r in records(whole, "step")],
                         [(r["step"], r["loss"]) for r in records(parts, "step")])
        shards = [{path.name: path.read_bytes() for path in (FOLDER / f"{out}_state").glob("*.bin")}
                  for out in (whole, parts)]
        self.assertTrue(shards[0])
        self.assertEqual(*shards)
