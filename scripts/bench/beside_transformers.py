"""What beside_transformers.sh runs: beside_transformers.py ZERO_LAUNCH ROUNDS."""
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, LENGTH, ROWS = 8, 512, 4


def steps_of_zero(program, dtype, folder):
    """Milliseconds of each step but the first."""
    text = subprocess.run([program, "train", "--model", "llama", "--preset", "llama-10m", "--seq-len", str(LENGTH),
                           "--micro-batch", str(ROWS), "--global-batch", str(ROWS), "--steps", str(STEPS), "--threads", "1",
                           "--dtype", dtype, "--data", folder / "text", "--out", folder / "run", "--save-every", "0",
                           "--recompute", "none", "--eval-fraction", "0", "--resume", "never"],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    subprocess.run(["rm", "-r", folder / "run"], check=True)
    return [float(number) for number in re.findall(r"\| +(\d+) ms", text)][1:]


def steps_of_transformers(model, dtype, folder):
    """The same; in this process alone, so that it says what it took by itself."""
    words = [sys.executable, "-W", "ignore", __file__, "peer", model, dtype, folder / "text"]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)[1:]


def peer(model, dtype, text):
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(1)
    module = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens = torch.tensor(list(Path(text).read_bytes()))
    milliseconds = []
    for _ in range(STEPS):
        first = torch.randint(len(tokens) - LENGTH, (ROWS,)).tolist()
        batch = torch.stack([tokens[begin:begin + LENGTH] for begin in first])
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = module(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        milliseconds.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps(milliseconds))


def main(program, rounds):
    print("| model | type | transformers, ms | zero_launch, ms | faster by |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text").write_text("All work and no play makes Jack a dull boy.\n" * 20000)
        for words in (["seed", "--model", "llama", "--preset", "llama-10m", "--out", folder / "seed"],
                      ["export", folder / "seed", "--to", folder / "model"]):
            subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)
        for dtype in ("fp32", "bf16"):
            ours, theirs, ratios = [], [], []
            for _ in range(int(rounds)):
                theirs.append(statistics.median(steps_of_transformers(folder / "model", dtype, folder)))
                ours.append(statistics.median(steps_of_zero(program, dtype, folder)))
                ratios.append(theirs[-1] / ours[-1])
            print(f"| llama-10m | {dtype} | {statistics.median(theirs):.0f} | {statistics.median(ours):.0f} | "
                  f"{statistics.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    peer(*sys.argv[2:]) if sys.argv[1] == "peer" else main(*sys.argv[1:])
