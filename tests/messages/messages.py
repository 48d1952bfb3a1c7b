#!/usr/bin/env python3
"""What zero_launch answers to wrong input: each case of the .txt files beside this one, run for real.

    tests/messages/messages.py PROGRAM              # compare
    tests/messages/messages.py PROGRAM --update     # write what it answers now; read the diff before you commit it
    tests/messages/messages.py PROGRAM --only bias  # cases whose command holds this
    tests/messages/messages.py PROGRAM --every 6    # one case of six
    tests/messages/messages.py PROGRAM --every 6 --others  # the other five

A case is a line of shell behind "$ ", then the exit code, then what stderr says, up to an empty line. It runs in a new folder that
holds what make_fixtures() makes, with $MODEL (a tiny shape), $DATA (data and out) and $RUN (both). Names of the machine, its numbers and
temporary folders are replaced by words in angle brackets; empty lines, and what mpirun adds, are left out.
"""

import argparse
import difflib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "examples/chat"))
from make_chats import make_tokenizer  # noqa: E402

MODEL = "--layers 1 --dim 16 --heads 2 --seq-len 16 --global-batch 4 --micro-batch 2 --steps 2 --device cpu"
DATA = "--data text.txt --out out"
TIMEOUT = 60
REFUSES_OTHERS = ("{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no ' + m.role) }}{% endif %}"
                  "{{ m.role }}: {{ m.content }}<|end|>\n{% endfor %}")


def make_fixtures(folder, program):
    """Data, good and bad, a run of two steps, a seed, a folder of Hugging Face."""
    def launch(*words):
        subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment(program))

    (folder / "text.txt").write_text("It was a bright cold day in April, and the clocks were striking thirteen.\n" * 20)
    (folder / "empty.txt").write_text("")
    make_tokenizer(folder / "tok", ["<|end|>"], REFUSES_OTHERS)
    turns = '{"messages": [{"role": "%s", "content": "%s"}, {"role": "assistant", "content": "%s"}]}\n'
    (folder / "chats.jsonl").write_text(turns % ("user", "2 + 2?", "4") * 3)
    (folder / "wrong.jsonl").write_bytes((turns % ("user", "2 + 2?", "4") + turns % ("pirate", "ahoy", "no") + turns % ("user", "", "no")
                                          + turns % ("user", "a <|end|>", "b") + turns % ("user", "\\ud800", "b") + "[1]\n{\n"
                                          + '{"text": "a"}\n{"messages": [{"role": "user", "content": "a"}]}\n').encode() + b'"\xff"\n')
    (folder / "short.txt").write_text("short\n")
    (folder / "program").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 16)
    (folder / "table.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 16 + b"PAR1")
    (folder / "ids.bin").write_bytes(bytes([5, 0]) * 500)
    (folder / "large_ids.bin").write_bytes(bytes([5, 0]) * 500 + bytes([200, 1]) * 4)
    launch("train", "--data", "text.txt", "--out", "run", *MODEL.split())
    launch("seed", "--data", "text.txt", "--out", "seed", *MODEL.split()[:6])
    shutil.copytree(folder / "run", folder / "damaged")
    shard = next((folder / "damaged").glob("step_*/shard_*.h5"))
    shard.chmod(0o644)
    content = bytearray(shard.read_bytes())
    for place in range(2048, len(content), 512):
        content[place] ^= 1
    shard.write_bytes(content)
    shutil.copytree(ROOT / "tests/references/llama", folder / "hf")
    shutil.copytree(folder / "hf", folder / "no_weights")
    for weights in (folder / "no_weights").glob("*.safetensors"):
        weights.unlink()
    (folder / "nothing").mkdir()


def environment(program):
    kept = {key: value for key, value in os.environ.items()
            if not re.match("ZERO_|OMPI_|PMI|SLURM_|COLUMNS|NO_COLOR", key) or key.startswith("OMPI_MCA_")}
    kept["PATH"] = f"{Path(program).parent}:{kept['PATH']}"
    kept["MODEL"] = MODEL
    kept["DATA"] = DATA
    kept["RUN"] = f"{MODEL} {DATA}"
    kept["LC_ALL"] = "C.UTF-8"
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return kept


def replaced(text, folder):
    text = text.replace(str(folder), "<folder>").replace(socket.gethostname(), "<host>")
    text = re.sub(r"pid \d+", "pid <pid>", text)
    text = re.sub(r"\b[\d.]+ a second", "<n> a second", text)
    text = re.sub(r"\b\d+ cores", "<n> cores", text)
    text = re.sub(r"\b\d+(\.\d+)? [KMGT]iB\b", "<size>", text)
    text = text.split("-" * 70, 1)[0]
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip() and not line.startswith("[<host>"))


class Case:
    def __init__(self, command, answer):
        self.command, self.answer = command, answer

    def run(self, fixtures, program):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "here"
            shutil.copytree(fixtures, folder, symlinks=True)
            try:
                done = subprocess.run(["bash", "-c", self.command], cwd=folder, env=environment(program), text=True, errors="replace",
                                      stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                return f"no answer in {TIMEOUT} seconds"
            return f"{done.returncode}\n{replaced(done.stderr, folder)}".rstrip("\n")


def read(path):
    """The cases of a file and what stands before each: comments."""
    cases, before = [], []
    for block in re.split(r"\n\n+", path.read_text().strip("\n")):
        lines = block.split("\n")
        while lines and lines[0].startswith("#"):
            before.append(lines.pop(0))
        if lines:
            cases.append((before, Case(lines[0].removeprefix("$ "), "\n".join(lines[1:]))))
            before = []
    return cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case of N")
    parser.add_argument("--others", action="store_true", help="the cases that --every leaves out")
    options = parser.parse_args()
    if options.others and options.every == 1:
        parser.error("--others needs --every: without it no case is left out")
    program = str(Path(options.program).resolve())
    num_cases, num_wrong = 0, 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        fixtures = Path(name) / "fixtures"
        fixtures.mkdir()
        make_fixtures(fixtures, program)
        for path in sorted(HERE.glob("*.txt")):
            cases = [(before, case) for before, case in read(path) if options.update or options.only in case.command]
            wanted = [case for _, case in cases if options.only in case.command]
            wanted = [case for i, case in enumerate(wanted) if (i % options.every == 0) != options.others]
            answers = dict(zip(wanted, pool.map(lambda case: case.run(fixtures, program), wanted)))
            num_cases += len(wanted)
            for case, answer in answers.items():
                if answer == case.answer:
                    continue
                num_wrong += 1
                if options.update:
                    case.answer = answer
                    continue
                print(f"{path.name}: $ {case.command}")
                print("\n".join(difflib.unified_diff(case.answer.split("\n"), answer.split("\n"), "expected", "answer", lineterm="")))
            if options.update:
                path.write_text("\n\n".join("\n".join([*before, f"$ {case.command}", case.answer]) for before, case in cases) + "\n")
    print(f"{num_cases} cases, {num_wrong} {'written' if options.update else 'wrong'}")
    sys.exit(0 if options.update or (num_cases and not num_wrong) else 1)


if __name__ == "__main__":
    main()
