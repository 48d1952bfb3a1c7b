"""The runs that the crash campaign disturbs: small, and each with another part of a run's life."""

import dataclasses
import shutil
from pathlib import Path

from program import Program

# A model with few tensors: most have no moments, so that a save makes few calls.
SHAPE = ["--layers=1", "--dim=32", "--heads=2", "--seq-len=16"]
TRAINING = ["--seq-len=16", "--global-batch=4", "--micro-batch=1", "--freeze=transformer.h.*", "--threads=1",
            "--adam-threads=1", "--save-every=1", "--resume=auto", "--schedule=constant", "--eval-fraction=0"]
MODEL = SHAPE[:-1] + TRAINING
# What Program puts the folder of a model of that shape in the place of.
FROM_BASE = "--init-from=BASE"

# What others may have put into a run's folder, some of it under names that look like the program's own.
FOREIGN = ["tmp.notes", "tmp.dir/x", "zero.tmp.mine", "step_000000000007",
           "zero.tmp.000000000009.0123456789abcdef/notes"]


@dataclasses.dataclass(frozen=True)
class Story:
    name: str
    about: str
    flags: tuple
    saves: tuple  # (step, batches) of each save, in order
    begins_at: tuple = (0, 0)  # the checkpoint that is there already
    ranks: tuple = (1, 2)  # how many it is tried on

    def words(self):
        given = {flag.split("=")[0] for flag in self.flags}
        words = TRAINING if FROM_BASE in self.flags else MODEL
        return [word for word in words if word.split("=")[0] not in given] + list(self.flags)

    def prefix(self, ranks, exchange):
        """What the names of its trials begin with."""
        return f"{self.name}{'' if exchange else '-no_exchange'}-ranks{ranks}-"

    def saves_one_step(self):
        return len({step for step, _ in self.saves}) < len(self.saves)


STORIES = [
    Story("fresh", "two saves in a new folder, the first one is removed behind the second",
          ("--steps=2", "--keep=1"), saves=((1, 1), (2, 2))),
    # Weights so large that every later step is skipped: at its end the same step is saved anew, behind all data.
    Story("replace", "a save, and one that replaces it",
          ("--epochs=1", "--global-batch=256", "--micro-batch=64", "--keep=1", "--lr=1e30", "--clip=0", "--max-bad-steps=0"),
          saves=((1, 1), (1, 5))),
    Story("resume", "go on behind a run that was killed in its third save",
          ("--steps=3", "--keep=2"), saves=((3, 3),), begins_at=(2, 2)),
    Story("damaged", "the same, with a flipped bit in the newest checkpoint",
          ("--steps=3", "--keep=0"), saves=((2, 2), (3, 3)), begins_at=(1, 1)),
    Story("sync", "as fresh, where steps wait for saves",
          ("--steps=2", "--keep=1", "--save=sync"), saves=((1, 1), (2, 2))),
    Story("left_out", "as fresh, without the frozen weights in checkpoints",
          ("--steps=2", "--keep=1", FROM_BASE, "--save-frozen=false"), saves=((1, 1), (2, 2))),
    Story("groups", "as fresh, where each rank is a group and holds whole weights",
          ("--steps=2", "--keep=1", "--shard-over=1"), saves=((1, 1), (2, 2)), ranks=(2,)),
]


def write_text(path):
    """Letters that repeat with changes."""
    state, letters = 1, []
    for i in range(20000):
        state = (state * 1664525 + 1013904223) % 2**32
        letters.append("the quick brown fox "[(i + (state >> 29)) % 20])
    path.write_text("".join(letters))


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def kill_in_third_save(program, run, ranks):
    """Steps 1 and 2 whole, step 3 all but named, a dead holder of the lock."""
    words = MODEL + ["--keep=0", "--save=sync"]
    program.train(run, ranks, words + ["--steps=2"]).expect(0)
    rehearsal, log = run.with_name("rehearsal"), run.with_name("rehearsal.calls")
    shutil.copytree(run, rehearsal)
    program.train(rehearsal, ranks, words + ["--steps=3"], {"FAULT_LOG": log}).expect(0)
    calls = [line.split("\t") for line in log.read_text().splitlines()]
    naming = [call[0] for call in calls if call[1] == "renameat" and call[3].startswith("zero.tmp.000000000003")]
    program.train(run, ranks, words + ["--steps=3"], {"FAULT_AT": naming[0], "FAULT_KIND": "kill"})
    shutil.rmtree(rehearsal)


def put_foreign(run):
    for name in FOREIGN:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(f"not the program's: {name}\n")


def prepare(program: Program, story: Story, ranks: int, folder: Path):
    """The run's folder as the story finds it."""
    run = folder / "run"
    run.mkdir(parents=True)
    if story.begins_at != (0, 0):
        kill_in_third_save(program, run, ranks)
    if story.name == "damaged":
        flip_a_bit(run / "step_000000000002" / f"shard_{ranks - 1:05}_of_{ranks:05}.h5")
    put_foreign(run)
    return run
