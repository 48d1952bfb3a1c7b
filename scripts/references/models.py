"""Make, load and train the small models: what a reference means is decided here."""
import json
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from cases import CASES, OLD_KEYS, RANGE, VOCAB

logging.disable_progress_bar()

ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY, CLIP = 0.1, 1.0


def randomise(model, seed):
    """Give every parameter values that show when it is left out: biases are not 0, norms not 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        is_norm_weight = parameter.dim() == 1 and name.endswith("weight")
        with torch.no_grad():
            parameter.normal_(1.0 if is_norm_weight else 0.0, RANGE, generator=generator)


def with_old_keys(config):
    """The same configuration as transformers 4 would have written it."""
    rope = dict(config.pop("rope_parameters", None) or {})
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    theta, partial = rope.pop("rope_theta", None), rope.pop("partial_rotary_factor", None)
    if config["model_type"] == "gpt_neox":
        config |= {"rotary_emb_base": theta, "rotary_pct": partial}
    else:
        config["rope_theta"] = theta
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    return config


def save_case(name, folder):
    """Write the folder of a case: config.json, generation_config.json and model.safetensors in fp32."""
    model = AutoModelForCausalLM.from_config(CASES[name](), dtype=torch.float32)
    randomise(model, seed=zlib.crc32(name.encode()))
    model.save_pretrained(folder)
    if name in OLD_KEYS:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(with_old_keys(json.loads(path.read_text())), indent=2) + "\n")


def load(folder, dtype=torch.float32):
    """The folder's model without dropout. `dtype` covers parameters; tables of frequencies stay fp32, as from_pretrained
    keeps them and model.to(dtype) would not."""
    config = json.loads((Path(folder) / "config.json").read_text())
    attention = {"attn_implementation": "eager"} if config["model_type"] == "gptj" else {}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **attention).eval()


def logits_of(model, tokens):
    """tokens: (rows, T). Logits (rows, T, vocabulary) without cache and mask."""
    return model(tokens, use_cache=False).logits


def loss_sum(model, samples):
    """samples: (rows, T + 1), of which T are read and T are targets. Sums in double, so that only the model rounds."""
    logits = logits_of(model, samples[:, :-1]).double()
    return F.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten(), reduction="sum")


def trained(model):
    """What is not frozen."""
    return [p for p in model.parameters() if p.requires_grad]


def gradient_norm(model):
    """The norm of all gradients together, in double."""
    return torch.stack([p.grad.double().norm() for p in trained(model)]).norm().item()


def mean_loss(model, samples):
    return loss_sum(model, samples) / samples[:, 1:].numel()


def train(model, batches, mean_loss=mean_loss):
    """Train by torch's AdamW, clipped to norm 1; yield each step's mean loss and norm before clipping."""
    parameters = trained(model)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}], foreach=False, **ADAMW)
    for samples in batches:
        optimizer.zero_grad()
        loss = mean_loss(model, samples)
        loss.backward()
        norm = gradient_norm(model)
        torch.nn.utils.clip_grad_norm_(parameters, CLIP, foreach=False)
        optimizer.step()
        yield loss.item(), norm


@torch.no_grad()
def continue_greedily(model, prompt, count):
    """The `count` likeliest tokens after a prompt (list of ids), one at a time, and how far each led the second."""
    tokens, margins = list(prompt), []
    for _ in range(count):
        best = logits_of(model, torch.tensor([tokens]))[0, -1].float().topk(2)
        tokens.append(best.indices[0].item())
        margins.append((best.values[0] - best.values[1]).item())
    return tokens[len(prompt):], margins


@torch.no_grad()
def behind(model, prompt, text):
    """(T, vocabulary) fp32: logits at each token of a prompt and a text (lists of ids)."""
    return logits_of(model, torch.tensor([prompt + text]))[0].float()


def leads(logits, begin, text):
    """How far the likeliest token leads each one of a text that begins there; 0: it is the likeliest."""
    before = logits[begin - 1:-1]
    chosen = before.gather(1, torch.tensor(text).unsqueeze(1)).squeeze(1)
    return (before.max(dim=1).values - chosen).tolist()


def random_tokens(rows, length, seed, vocab=VOCAB):
    """(rows, length)"""
    return torch.randint(0, vocab, (rows, length), generator=torch.Generator().manual_seed(seed))


def file_names(model, folder):
    """{name of a parameter in `model`: its name in the folder's file}. NeoX's head has two names."""
    with safe_open(Path(folder) / "model.safetensors", "pt") as file:
        on_disk = set(file.keys())
    names = {name: name if name in on_disk else "embed_out.weight" for name, _ in model.named_parameters()}
    assert set(names.values()) == on_disk, on_disk ^ set(names.values())
    return names


def read_samples(path, length, count):
    """(count, length + 1) of a file of uint16: sample i is tokens [i * length, i * length + length]."""
    tokens = torch.from_numpy(np.fromfile(path, "<u2").astype(np.int64))
    return torch.stack([tokens[i * length:i * length + length + 1] for i in range(count)])
