#!/usr/bin/env python3
"""How fast `zero_launch generate` makes tokens, beside transformers with its cache, in turn on as many threads.

    scripts/bench/generate_peers.py [--rounds 5] [--threads 2] | scripts/bench/tables.py     needs transformers

Of tokens behind the prompt; medians of rounds and of their ratios. "swept" is the speed at which the weights that a step reads
would leave memory, of what a sum of as many bytes reaches. "program s" is the time from its start to its end.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = os.environ.get("ZERO_PROGRAM", Path(__file__).resolve().parents[2] / "build/bin/zero_launch")
# Preset, type, rows, tokens of each.
CASES = [("gpt2-10m", "fp32", 1, 200), ("qwen2.5-0.5b", "fp32", 1, 32), ("qwen2.5-0.5b", "fp32", 8, 16), ("qwen2.5-0.5b", "fp32", 16, 16),
         ("qwen2.5-0.5b", "bf16", 1, 32), ("qwen2.5-0.5b", "bf16", 8, 16)]
PROMPT = " ".join(map(str, range(5, 13)))


def run(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ours(folder, dtype, rows, count, threads):
    """Tokens a second behind the prompt, as the program says; and seconds from its start to its end."""
    words = [PROGRAM, "generate", folder, "--prompt", PROMPT, "--num-tokens", count, "--num-samples", rows, "--threads", threads,
             "--greedy", "--ignore-eos", "--device", "cpu", "--dtype", dtype]
    begin = time.perf_counter()
    said = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, errors="replace").stderr
    return float(re.findall(r"more, ([0-9.]+) a second", said)[-1]), time.perf_counter() - begin


class Peer:
    def __init__(self, folder, dtype, threads):
        import torch
        import transformers
        torch.set_num_threads(threads)
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]).eval()
        # The head reads a tied embedding; an embedding of its own is read one row at a time.
        self.bytes = sum(p.numel() * p.element_size() for name, p in self.model.named_parameters()
                         if self.model.config.tie_word_embeddings or "embed_tokens" not in name)

    def seconds(self, rows, count):
        tokens = self.torch.tensor([list(map(int, PROMPT.split()))] * rows)
        begin = time.perf_counter()
        with self.torch.no_grad():
            self.model.generate(tokens, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
        return time.perf_counter() - begin

    def sweep(self):
        """Bytes a second of a sum over as many, the median of five."""
        values, seconds = self.torch.ones(self.bytes // 4), []
        for _ in range(5):
            begin = time.perf_counter()
            values.sum()
            seconds.append(time.perf_counter() - begin)
        return self.bytes / statistics.median(seconds)


def measure(folder, peer, dtype, rows, count, given):
    told = []
    for _ in range(given.rounds):
        mine, whole = ours(folder, dtype, rows, count, given.threads)
        theirs = (count - 1) * rows / (peer.seconds(rows, count) - peer.seconds(rows, 1))
        told.append({"tokens per s": mine, "transformers": theirs, "of its speed": mine / theirs,
                     "swept": mine / rows * peer.bytes / peer.sweep(), "program s": whole})
    return {key: statistics.median(each[key] for each in told) for key in told[0]}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    given = arguments.parse_args()
    rows_of_table, peer, made = [], None, None
    with tempfile.TemporaryDirectory() as name:
        for preset, dtype, rows, count in CASES:
            folder = Path(name) / preset
            if not folder.exists():
                run(PROGRAM, "seed", "--out", Path(name) / "seed" / preset, "--preset", preset, *(["--vocab", 257] if "10m" in preset else []))
                run(PROGRAM, "export", Path(name) / "seed" / preset, "--to", folder)
            if made != (preset, dtype):
                peer, made = Peer(folder, dtype, given.threads), (preset, dtype)
                peer.seconds(1, 4)
            rows_of_table.append({"model": preset, "type": dtype, "rows": rows, "tokens": count,
                                  **measure(folder, peer, dtype, rows, count, given)})
    print(json.dumps(rows_of_table))


if __name__ == "__main__":
    main()
