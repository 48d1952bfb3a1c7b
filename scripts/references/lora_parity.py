"""Compare LoRA with peft and torch's AdamW on small models; print a table in Markdown.

    lora_parity.py PROGRAM MODELS [CASE...]

peft makes an adapter with values in both factors, which each trains for 20 steps. Then peft reads ours and we read
theirs. Exit code 1 where a number is beyond its limit, which is in bold then.
"""
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model

from models import load, logits_of, random_tokens, read_samples, train
from parity import BATCH, EXPORT_LIMIT, LOSS_LIMIT, NORM_LIMIT, RANKS, SHORT, Cell, within
from zero_program import Failed, Program

# Of each model: what of it peft is told.
LORAS = {
    "llama": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    "qwen2": dict(r=4, lora_alpha=16, target_modules="all-linear", use_rslora=True),
    "qwen3": dict(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"], rank_pattern={"down_proj": 5},
                  alpha_pattern={"down_proj": 7}, modules_to_save=["input_layernorm"]),
    "gpt2": dict(r=4, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True),
    "mistral": dict(r=2, lora_alpha=4, target_modules=["o_proj"], modules_to_save=["lm_head"]),
}
COLUMNS = ("model", *(f"loss, {n} rank{'s' * (n > 1)}" for n in RANKS), "norm", "peft reads ours", "merged", "we read peft's")


def make_adapter(name, models, folder):
    """peft's own first values, but for B, which would hide A."""
    model = get_peft_model(load(models / name), LoraConfig(task_type="CAUSAL_LM", **LORAS[name]))
    generator = torch.Generator().manual_seed(5)
    for key, value in model.named_parameters():
        if "lora_B" in key:
            with torch.no_grad():
                value.normal_(0, 0.1, generator=generator)
    model.save_pretrained(folder)


def load_adapter(name, models, folder, is_trained=False):
    return PeftModel.from_pretrained(load(models / name), folder, is_trainable=is_trained)


class LoraComparison:
    def __init__(self, name, program, models, work):
        self.name, self.program, self.models, self.work = name, program, models, work
        self.data, self.adapter = work / "data.bin", work / "adapter"
        count = SHORT.steps * BATCH * SHORT.length + 1
        random_tokens(1, count, seed=11)[0].to(torch.uint16).numpy().tofile(self.data)
        make_adapter(name, models, self.adapter)
        self.samples = read_samples(self.data, SHORT.length, SHORT.steps * BATCH)

    def training(self):
        model = load_adapter(self.name, self.models, self.adapter, is_trained=True)
        expected = list(train(model, self.samples.split(BATCH)))
        cells, worst_norm = [], 0
        for ranks in RANKS:
            steps = self.program.train(self.models / self.name, self.data, self.work / f"ranks_{ranks}", ranks=ranks, lr=1e-3,
                                       steps=SHORT.steps, seq_len=SHORT.length, global_batch=BATCH, micro_batch=1,
                                       adapter=self.adapter)
            pairs = list(zip(steps, expected, strict=True))
            cells.append(within(max(abs(ours["loss"] - loss) for ours, (loss, _) in pairs), LOSS_LIMIT))
            worst_norm = max(worst_norm, *(abs(ours["grad_norm"] / norm - 1) for ours, (_, norm) in pairs))
        return [*cells, within(worst_norm, NORM_LIMIT)]

    def error(self, model, ours):
        """Of the mean loss of some samples, where ours has six decimals."""
        count = 16
        logits = logits_of(model, self.samples[:count, :-1]).double()
        targets = self.samples[:count, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
        return within(abs(loss - ours), EXPORT_LIMIT)

    def mean_loss(self, folder, **flags):
        return self.program.mean_loss(folder, self.data, SHORT.length, 16, **flags)

    def exports(self):
        run, alone, merged = self.work / "ranks_1", self.work / "alone", self.work / "merged"
        self.program.run("export", run, "--adapter", to=alone)
        self.program.run("export", run, "--merge", to=merged)
        ours = self.mean_loss(run)
        with torch.no_grad():
            return [self.error(load_adapter(self.name, self.models, alone).eval(), ours), self.error(load(merged), ours)]

    def imports(self):
        with torch.no_grad():
            model = load_adapter(self.name, self.models, self.adapter).eval()
            return [self.error(model, self.mean_loss(self.models / self.name, adapter=self.adapter))]

    def row(self):
        cells = [Cell(self.name, True)]
        for part, width in ((self.training, len(RANKS) + 1), (self.exports, 2), (self.imports, 1)):
            try:
                cells += part()
            except Failed as failure:
                print(f"{self.name}: {failure}", file=sys.stderr)
                cells += [Cell("failed", False)] * width
        return cells


def main():
    program, models = Program(sys.argv[1]), Path(sys.argv[2])
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    all_good = True
    for name in sys.argv[3:] or LORAS:
        with tempfile.TemporaryDirectory() as work:
            cells = LoraComparison(name, program, models, Path(work)).row()
        all_good &= all(cell.is_good for cell in cells)
        print("| " + " | ".join(cell.text if cell.is_good else f"**{cell.text}**" for cell in cells) + " |", flush=True)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
