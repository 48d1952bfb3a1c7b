"""zero_launch, told to do what a comparison needs."""
import json
import re
import subprocess
from pathlib import Path


class Failed(Exception):
    """The program ended with an error, which is the text."""


class Program:
    def __init__(self, path):
        self.path = path

    def run(self, verb, *words, **flags):
        """What it prints. A flag seq_len=8 becomes --seq-len 8."""
        given = [text for key, value in flags.items() for text in ("--" + key.strip("_").replace("_", "-"), str(value))]
        command = [self.path, verb, *map(str, words), *given]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise Failed(f"{' '.join(map(str, command))}\nexit code {result.returncode}\n{result.stderr[-2000:]}")
        return result.stdout

    def train(self, folder, data, out, **flags):
        """The records of a run's steps, from the weights in `folder`. Step s takes samples s * batch and the next."""
        self.run("train", "--shuffle=false", "--schedule=constant", "--eval-fraction=0", init_from=folder, data=data, out=out, threads=1, device="cpu", **flags)
        records = map(json.loads, (Path(out) / "metrics.jsonl").read_text().splitlines())
        return [record for record in records if record["type"] == "step"]

    def losses(self, folder, data, out, length, count, dtype="fp32"):
        """Of each sample alone, with all digits: steps that change nothing."""
        steps = self.train(folder, data, out, lr=0, steps=count, seq_len=length, global_batch=1, micro_batch=1, dtype=dtype)
        return [step["loss"] for step in steps]

    def continue_greedily(self, folder, prompts, count, work, **flags):
        """Token numbers behind each prompt's; a folder without a tokenizer speaks in them."""
        lines, records = work / "prompts.txt", work / "texts.jsonl"
        lines.write_text("".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts))
        records.unlink(missing_ok=True)
        self.run("generate", folder, "--greedy", "--ignore-eos", prompts=lines, to=records, num_tokens=count, seq_len=max(map(len, prompts)) + count,
                 threads=1, device="cpu", **flags)
        return [json.loads(line)["tokens"] for line in records.read_text().splitlines()]

    def mean_loss(self, run, data, length, count, **flags):
        """Six decimals."""
        said = self.run("eval", from_=run, data=data, seq_len=length, eval_samples=count, threads=1, device="cpu", **flags)
        return float(re.search(r"\| loss (\S+)", said)[1])

    def export(self, run, folder):
        self.run("export", from_=run, to=folder)
