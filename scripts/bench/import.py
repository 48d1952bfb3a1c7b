#!/usr/bin/env python3
"""How fast are weights of Hugging Face read and written, and in how much memory?

    scripts/bench/import.py                         # a llama of 1 GiB in bf16, 5 rounds, 1 rank
    scripts/bench/import.py --mib 256 --ranks 2

Writes a folder of random weights, and lets zero_launch read it (eval --from: the road of train --init-from, without gradients)
and export a checkpoint of it, in turns with a loop that reads and writes the same bytes and does nothing else. Times are those
between opening and closing the files, as /proc tells; every round begins with files that are not cached. Memory is what a rank
takes while it reads, beside its shards, which are there and filled before: RssAnon at most, less what it was at first.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIECE = 1 << 20
PAUSE = 0.005  # between two looks at a process
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 2816,
          "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 8192, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def shapes(layers):
    dim, ffn, vocab = (CONFIG[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    yield "model.embed_tokens.weight", [vocab, dim]
    for i in range(layers):
        for name in ("q", "k", "v", "o"):
            yield f"model.layers.{i}.self_attn.{name}_proj.weight", [dim, dim]
        for name, shape in (("gate", [ffn, dim]), ("up", [ffn, dim]), ("down", [dim, ffn])):
            yield f"model.layers.{i}.mlp.{name}_proj.weight", shape
        for name in ("input", "post_attention"):
            yield f"model.layers.{i}.{name}_layernorm.weight", [dim]
    yield "model.norm.weight", [dim]
    yield "lm_head.weight", [vocab, dim]


def write_model(folder, mib):
    """A model of about so many MiB; returns how many bytes its weights are."""
    def num_bytes(layers):
        return sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1) for _, shape in shapes(layers))

    layers = max(1, round(((mib << 20) - num_bytes(0)) / (num_bytes(1) - num_bytes(0))))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": layers}))
    header, end = {}, 0
    for name, shape in shapes(layers):
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, PIECE):  # 2^-7 and larger by up to a half, of both signs
            noise = os.urandom(min(PIECE, end - begin) // 2)
            high = bytes(0x3c | byte & 0x80 for byte in range(256))
            values = bytearray(2 * len(noise))
            values[0::2] = noise.translate(bytes(byte & 0x3f for byte in range(256)))
            values[1::2] = noise.translate(high)
            file.write(values)
    return end


def forget(*folders):
    """Out of the system's cache, as far as it obeys."""
    os.sync()
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if not path.is_file():
                continue
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_plainly(path, num_bytes):
    """The first bytes of a file."""
    buffer = bytearray(PIECE)
    begin = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        for _ in range(num_bytes // PIECE):
            file.readinto(buffer)
    return time.monotonic() - begin


def write_plainly(path, num_bytes):
    piece = os.urandom(PIECE)
    begin = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(num_bytes // PIECE):
            file.write(piece)
        os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    os.remove(path)
    return seconds


class Rank:
    """A process, watched from outside while it has files of a folder open."""

    def __init__(self, pid, folder):
        self.pid, self.folder = pid, str(folder)
        self.begin = self.end = None
        self.before = self.most = 0

    def look(self):
        now = time.monotonic()
        try:
            fds = [os.readlink(fd.path) for fd in os.scandir(f"/proc/{self.pid}/fd")]
            status = Path(f"/proc/{self.pid}/status").read_text()
            memory = int(status.partition("RssAnon:")[2].split()[0]) << 10
        except (OSError, IndexError):  # it has ended
            return
        if any(fd.startswith(self.folder) and fd.endswith((".safetensors", ".h5")) for fd in fds):
            if self.begin is None:
                self.begin = now
            self.end, self.most = now, max(self.most, memory)
        elif self.begin is None:
            self.before = memory


def ranks_of(program):
    """Of a program that may be an mpirun: all zero_launch below it."""
    pids, waiting = [], [program.pid]
    while waiting:
        pid = waiting.pop()
        try:
            waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            if Path(os.readlink(f"/proc/{pid}/exe")).name == "zero_launch":
                pids.append(pid)
        except OSError:
            pass
    return pids


def watch(words, folder):
    """Run a program; returns its ranks, as far as they opened files in the folder."""
    program = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
    ranks = {}
    while program.poll() is None:
        for pid in ranks_of(program):
            ranks.setdefault(pid, Rank(pid, folder)).look()
        time.sleep(PAUSE)
    if program.returncode != 0:
        sys.exit(f"import.py: {' '.join(map(str, words))} ended with {program.returncode}")
    return [rank for rank in ranks.values() if rank.begin is not None]


def seconds_of(ranks):
    return max(rank.end for rank in ranks) - min(rank.begin for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where files of some GiB may be written for a while")
    args = parser.parse_args()
    launch = Path(os.environ.get("ZERO_BUILD", ROOT / "build")) / "bin/zero_launch"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleans up
    work = Path(tempfile.mkdtemp(prefix="zero_import_", dir=args.folder)).resolve()
    try:
        model, run, out = work / "model", work / "run", work / "out"
        num_bytes = write_model(model, args.mib)
        (work / "tokens.bin").write_bytes(struct.pack("<17H", *range(17)))
        here = ["--data", work / "tokens.bin", "--seq-len", 16, "--threads", 1]
        ranks = ["--ranks", args.ranks] if args.ranks > 1 else []
        evaluate = [launch, "eval", "--from", model, "--micro-batch", 1, *here, *ranks]
        train = [launch, "train", "--init-from", model, "--out", run, "--steps", 1, "--optimizer", "sgd", "--momentum", 0,
                 "--lr", 0, "--global-batch", 1, "--micro-batch", 1, "--adam-threads", 1, *here]
        subprocess.run(list(map(str, train)), check=True, stdout=subprocess.DEVNULL)
        rows = {"import": ([], []), "export": ([], [])}
        extra = []
        for _ in range(args.rounds):
            forget(model)
            plain = read_plainly(model / "model.safetensors", num_bytes)
            forget(model)
            watched = watch(evaluate, model)
            rows["import"][0].append(seconds_of(watched))
            rows["import"][1].append(plain)
            extra += [rank.most - rank.before for rank in watched]
            forget(run)
            weights = next(run.glob("step_*/shard*"))  # fp32; states lie behind them
            plain = read_plainly(weights, 2 * num_bytes) + write_plainly(work / "plain", num_bytes)
            forget(run)
            watched = watch([launch, "export", "--from", run, "--to", out], work)
            rows["export"][0].append(seconds_of(watched))
            rows["export"][1].append(plain)
            shutil.rmtree(out)
        print(f"{num_bytes / 2**20:,.0f} MiB of bf16, {args.ranks} rank(s), medians of {args.rounds} rounds")
        print(f"{'':13} {'seconds':>8} {'plainly':>8} {'ratio':>6}")
        for name, (ours, plainly) in rows.items():
            ratio = statistics.median(a / b for a, b in zip(ours, plainly))
            print(f"{name:13} {statistics.median(ours):8.2f} {statistics.median(plainly):8.2f} {ratio:6.2f}")
        print(f"beside the shards, at most {max(extra) / 2**20:.1f} MiB per rank")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
