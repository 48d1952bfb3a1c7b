"""Compare LoRA with peft and torch's AdamW on small models; print a table in Markdown.

    lora_parity.py PROGRAM MODELS [CASE...]

peft makes an adapter with values in both factors, which each trains for 20 steps. Then peft reads ours and we read
theirs. Exit code 1 where a number is beyond its limit, which is in bold then.
"""
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model

from models import load, logits_of
from parity import EXPORT_LIMIT, RANKS, SHORT, Row, print_table, within
from zero_program import Program

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


class LoraComparison(Row):
    def __init__(self, name, program, models, work):
        super().__init__(name, program, models / name, SHORT, work)
        self.models, self.adapter = models, work / "adapter"
        make_adapter(name, models, self.adapter)

    def parts(self):
        return ((self.training, len(RANKS) + 1), (self.exports, 2), (self.imports, 1))

    def training(self):
        return self.steps_beside(load_adapter(self.name, self.models, self.adapter, is_trained=True), adapter=self.adapter)

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
            return [self.error(model, self.mean_loss(self.folder, adapter=self.adapter))]


def main():
    program, models = Program(sys.argv[1]), Path(sys.argv[2])
    return print_table(COLUMNS, sys.argv[3:] or LORAS, lambda name, work: LoraComparison(name, program, models, work))


if __name__ == "__main__":
    sys.exit(main())
