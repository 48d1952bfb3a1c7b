"""Weights of a case as older and larger folders have them: other names, dead buffers, several files."""
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from models import load, logits_of, random_tokens

SHARD_SIZE = "40KB"


def gpt2_old_names(tensors):
    """Names without a prefix, and each layer's mask, as the first GPT-2 folders have them."""
    mask = torch.ones(128, 128).tril().view(1, 1, 128, 128)
    masks = {f"h.{i}.attn.bias": mask.clone() for i in range(2)}
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()} | masks


def gpt_neox_old_buffers(tensors):
    """A mask, its fill value and frequencies in each layer, as Pythia's folders have them."""
    extra = {}
    for i in range(2):
        attention = f"gpt_neox.layers.{i}.attention."
        extra[attention + "bias"] = torch.ones(128, 128, dtype=torch.bool).tril().view(1, 1, 128, 128)
        extra[attention + "masked_bias"] = torch.tensor(-1e9)
        extra[attention + "rotary_emb.inv_freq"] = 1.0 / 10000 ** (torch.arange(0, 4, 2) / 4)
    return tensors | extra


LAYOUTS = {"gpt2_old_names": ("gpt2", gpt2_old_names), "gpt_neox_old_buffers": ("gpt_neox", gpt_neox_old_buffers)}


def save_layouts(root):
    for name, (case, change) in LAYOUTS.items():
        (root / name).mkdir(exist_ok=True)
        shutil.copy(root / case / "config.json", root / name)
        save_file(change(load_file(root / case / "model.safetensors")), root / name / "model.safetensors", {"format": "pt"})
        check_same(root / case, root / name)
    sharded = root / "llama_sharded"
    AutoModelForCausalLM.from_pretrained(root / "llama", dtype=torch.float32).save_pretrained(
        sharded, max_shard_size=SHARD_SIZE)
    check_same(root / "llama", sharded)


@torch.no_grad()
def check_same(folder, other):
    tokens = random_tokens(1, 24, seed=3)
    assert logits_of(load(folder), tokens).equal(logits_of(load(other), tokens)), other
