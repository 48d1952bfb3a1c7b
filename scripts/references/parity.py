"""Compare zero_launch with transformers and torch's AdamW on small models; print a table in Markdown.

    parity.py PROGRAM MODELS PYTHON_OF_TRANSFORMERS_4 [CASE...]

Exit code 1 where a number is beyond its limit, which is in bold then.
"""
import json
import math
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import torch
from safetensors.torch import load_file

from cases import CASES
from losses import losses
from models import load, random_tokens, read_samples, train
from zero_program import Failed, Program

RANKS = (1, 2, 4)
LOSS_LIMIT, NORM_LIMIT = 2e-5, 1e-4  # absolute, relative
EXPORT_LIMIT = 1e-5
BF16_LIMIT = 2.0  # times the error of transformers
BF16_LENGTH, BF16_SAMPLES = 8, 64

Size = namedtuple("Size", "length steps")
SHORT, LONG, BATCH = Size(24, 20), Size(8200, 2), 4

COLUMNS = ("model", "steps", *(f"loss, {n} rank{'s' * (n > 1)}" for n in RANKS), "norm", "export as read",
           "export after training", "in transformers 4", "bf16")

Cell = namedtuple("Cell", "text is_good")


def within(value, limit, digits="{:.1e}"):
    return Cell(digits.format(value), value <= limit)


class Row:
    """One model's; cells are made in turn, as some need the runs of others."""

    def __init__(self, name, program, folder, size, work):
        self.name, self.program, self.folder, self.size, self.work = name, program, folder, size, work
        self.data = work / "data.bin"
        count = size.steps * BATCH * size.length + 1
        random_tokens(1, count, seed=11)[0].to(torch.uint16).numpy().tofile(self.data)
        self.samples = read_samples(self.data, size.length, size.steps * BATCH)

    def steps_beside(self, model, **flags):
        """Loss of each number of ranks, then the norm of all."""
        size = self.size
        expected = list(train(model, self.samples.split(BATCH)))
        cells, worst_norm = [], 0
        for ranks in RANKS:
            steps = self.program.train(self.folder, self.data, self.work / f"ranks_{ranks}", ranks=ranks, lr=1e-3,
                                       steps=size.steps, seq_len=size.length, global_batch=BATCH, micro_batch=1, **flags)
            assert len(steps) == len(expected), f"{len(steps)} steps of {len(expected)}"
            pairs = list(zip(steps, expected))
            cells.append(within(max(abs(ours["loss"] - loss) for ours, (loss, _) in pairs), LOSS_LIMIT))
            worst_norm = max(worst_norm, *(abs(ours["grad_norm"] / norm - 1) for ours, (_, norm) in pairs))
        return [*cells, within(worst_norm, NORM_LIMIT)]

    def parts(self):
        """What makes cells, and how many."""
        raise NotImplementedError

    def cells(self):
        made = [Cell(self.name, True)]
        for part, width in self.parts():
            try:
                made += part()
            except Failed as failure:
                print(f"{self.name}: {failure}", file=sys.stderr)
                made += [Cell("failed", False)] * width
        return made


def print_table(columns, names, row_of):
    """row_of(name, work): a Row. The exit code: were all numbers within their limits?"""
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    all_good = True
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            cells = row_of(name, Path(work)).cells()
        all_good &= all(cell.is_good for cell in cells)
        print("| " + " | ".join(cell.text if cell.is_good else f"**{cell.text}**" for cell in cells) + " |", flush=True)
    return 0 if all_good else 1


class Comparison(Row):
    def __init__(self, name, program, models, python_4, work):
        super().__init__(name, program, models / name, LONG if name.endswith("_long") else SHORT, work)
        self.python_4 = python_4

    def parts(self):
        return ((self.steps_told, 1), (self.training, len(RANKS) + 1), (self.untouched_export, 1), (self.trained_export, 2),
                (self.bf16, 1))

    def steps_told(self):
        return [Cell(f"{self.size.steps} x {self.size.length}", True)]

    def training(self):
        return self.steps_beside(load(self.folder))

    def untouched_export(self):
        """A step that changes nothing, then the file again."""
        run, folder = self.work / "untouched", self.work / "untouched_export"
        self.program.losses(self.folder, self.data, run, BF16_LENGTH, 1)
        self.program.export(run, folder)
        ours, given = (load_file(path / "model.safetensors") for path in (folder, self.folder))
        wrong = sorted(ours.keys() ^ given.keys()) or [
            key for key in given if ours[key].dtype != given[key].dtype or not ours[key].equal(given[key])]
        return [Cell(f"{len(wrong)} differ: {wrong[0]}" if wrong else "bitwise", not wrong)]

    def trained_export(self):
        """The loss of the exported model in both transformers against ours of the run."""
        run, folder = self.work / "ranks_1", self.work / "export"
        count = min(16, self.size.steps * BATCH)
        self.program.export(run, folder)
        ours = self.program.mean_loss(run, self.data, self.size.length, count)
        cells = []
        for python in (sys.executable, self.python_4):
            result = subprocess.run([python, Path(__file__).with_name("losses.py"), folder, self.data,
                                     str(self.size.length), str(count), "float32"], capture_output=True, text=True)
            if result.returncode:
                raise Failed(f"{python} losses.py {folder}\n{result.stderr[-2000:]}")
            theirs = json.loads(result.stdout.splitlines()[-1])
            cells.append(within(abs(sum(theirs) / count - ours), EXPORT_LIMIT))
        return cells

    def bf16(self):
        """Error of each sample's loss, as root of mean squares, ours by theirs."""
        of = (self.data, BF16_LENGTH, BF16_SAMPLES)
        exact = losses(self.folder, *of)
        theirs = losses(self.folder, *of, torch.bfloat16)
        ours = self.program.losses(self.folder, self.data, self.work / "bf16", *of[1:], dtype="bf16")

        def error(rounded):
            return math.dist(rounded, exact) / math.sqrt(len(exact))
        return [Cell(f"{error(ours):.1e} / {error(theirs):.1e}", error(ours) <= BF16_LIMIT * error(theirs))]


def main():
    program, models, python_4 = Program(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    return print_table(COLUMNS, sys.argv[4:] or CASES, lambda name, work: Comparison(name, program, models, python_4, work))


if __name__ == "__main__":
    sys.exit(main())
