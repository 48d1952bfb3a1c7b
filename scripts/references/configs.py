"""What transformers makes of a config.json: counts of parameters and every field that decides the model."""
import json
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from published import PUBLISHED

# Small in all that a test does not ask for, so that an absent key is what it shows.
SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, vocab_size=64)
LLAMA, MISTRAL, QWEN2, QWEN3, NEOX = (
    dict(model_type=kind, **SHAPE) for kind in ("llama", "mistral", "qwen2", "qwen3", "gpt_neox"))
MANY_HEADS = dict(num_attention_heads=32)  # where the default number of key heads must divide it
KEY_HEADS = dict(num_key_value_heads=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
YARN = dict(rope_type="yarn", factor=4.0)
MIXED = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]

VARIANTS = {
    "gpt2: nothing": dict(model_type="gpt2"),
    "gpt2: n_inner": dict(model_type="gpt2", n_embd=64, n_head=4, n_layer=2, n_inner=100, vocab_size=64),
    "gpt2: other names of the same": dict(model_type="gpt2", hidden_size=64, num_attention_heads=4,
                                          num_hidden_layers=2, max_position_embeddings=32, vocab_size=64),
    "gpt2: untied": dict(model_type="gpt2", n_embd=64, n_head=4, n_layer=2, vocab_size=64, tie_word_embeddings=False),
    "llama: nothing": dict(model_type="llama"),
    "llama: shape only": LLAMA,
    "llama: null key heads and head_dim": LLAMA | dict(num_key_value_heads=None, head_dim=None),
    "llama: head_dim": LLAMA | KEY_HEADS | dict(head_dim=24),
    "llama: attention_bias": LLAMA | KEY_HEADS | dict(attention_bias=True),
    "llama: mlp_bias": LLAMA | KEY_HEADS | dict(mlp_bias=True),
    "llama: rope_theta": LLAMA | dict(rope_theta=500000.0),
    "llama: rope_parameters": LLAMA | dict(rope_parameters=dict(rope_type="default", rope_theta=500000.0)),
    "llama: rope_parameters without theta": LLAMA | dict(rope_parameters=dict(rope_type="default")),
    "llama: rope_theta and rope_parameters": LLAMA | dict(
        rope_theta=500000.0, rope_parameters=dict(rope_type="default", rope_theta=20000.0)),
    "llama: rope_theta and rope_parameters without theta": LLAMA | dict(
        rope_theta=500000.0, rope_parameters=dict(rope_type="linear", factor=2.0)),
    "llama: rope_scaling by type": LLAMA | dict(rope_scaling=dict(type="linear", factor=4.0)),
    "llama: rope_scaling by type and rope_type": LLAMA | dict(
        rope_scaling=dict(type="linear", rope_type="linear", factor=4.0)),
    "llama: rope_scaling and rope_parameters": LLAMA | dict(
        rope_scaling=dict(rope_type="linear", factor=4.0),
        rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=20000.0)),
    "llama: rope_scaling with a theta": LLAMA | dict(
        rope_scaling=dict(rope_type="linear", factor=4.0, rope_theta=20000.0)),
    "llama: rope_scaling with a theta, and rope_theta": LLAMA | dict(
        rope_theta=500000.0, rope_scaling=dict(rope_type="linear", factor=4.0, rope_theta=20000.0)),
    "llama: llama3 without original length": LLAMA | dict(max_position_embeddings=4096, rope_scaling=LLAMA3),
    "llama: llama3, original length outside": LLAMA | dict(
        max_position_embeddings=4096, original_max_position_embeddings=1024, rope_scaling=LLAMA3),
    "llama: llama3 without factor": LLAMA | dict(rope_scaling=dict(rope_type="llama3")),
    "llama: yarn without original length": LLAMA | dict(max_position_embeddings=4096, rope_scaling=YARN),
    "llama: unknown rope_type": LLAMA | dict(rope_scaling=dict(rope_type="spiral", factor=2.0)),
    "llama: partial_rotary_factor": LLAMA | dict(partial_rotary_factor=0.5),
    "llama: partial_rotary_factor in rope_parameters": LLAMA | dict(
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
    "llama: heads do not divide": LLAMA | dict(num_attention_heads=5),
    "llama: list of end tokens": LLAMA | dict(eos_token_id=[3, 5, 7]),
    "mistral: nothing": dict(model_type="mistral"),
    "mistral: shape only": MISTRAL | MANY_HEADS,
    "mistral: null window": MISTRAL | KEY_HEADS | dict(sliding_window=None),
    "mistral: head_dim": MISTRAL | KEY_HEADS | dict(head_dim=8),
    "mistral: null head_dim": MISTRAL | KEY_HEADS | dict(head_dim=None),
    "qwen2: nothing": dict(model_type="qwen2"),
    "qwen2: shape only": QWEN2 | MANY_HEADS,
    "qwen2: null key heads": QWEN2 | dict(num_key_value_heads=None),
    "qwen2: window without its flag": QWEN2 | KEY_HEADS | dict(sliding_window=16, max_window_layers=1),
    "qwen2: window": QWEN2 | KEY_HEADS | dict(use_sliding_window=True, sliding_window=16, max_window_layers=1),
    "qwen2: flag alone": QWEN2 | KEY_HEADS | dict(use_sliding_window=True),
    "qwen2: flag, window, no max_window_layers": QWEN2 | KEY_HEADS | dict(use_sliding_window=True, sliding_window=16),
    "qwen2: layer_types against max_window_layers": QWEN2 | KEY_HEADS | dict(
        use_sliding_window=True, sliding_window=16, max_window_layers=1, layer_types=MIXED),
    "qwen3: nothing": dict(model_type="qwen3"),
    "qwen3: shape only": QWEN3 | MANY_HEADS,
    "qwen3: null head_dim": QWEN3 | KEY_HEADS | dict(head_dim=None),
    "qwen3: attention_bias": QWEN3 | KEY_HEADS | dict(attention_bias=True),
    "qwen3: window": QWEN3 | KEY_HEADS | dict(use_sliding_window=True, sliding_window=16, max_window_layers=3),
    "gptj: nothing": dict(model_type="gptj"),
    "gptj: n_inner, null rotary_dim": dict(model_type="gptj", n_embd=64, n_head=4, n_layer=2, n_inner=100,
                                           rotary_dim=None, vocab_size=64),
    "gptj: tied": dict(model_type="gptj", n_embd=64, n_head=4, n_layer=2, rotary_dim=8, vocab_size=64,
                       tie_word_embeddings=True),
    "gpt_neox: nothing": dict(model_type="gpt_neox"),
    "gpt_neox: shape only": NEOX,
    "gpt_neox: old names": NEOX | dict(rotary_pct=0.5, rotary_emb_base=5000),
    "gpt_neox: rope_parameters without a part": NEOX | dict(
        rope_parameters=dict(rope_type="default", rope_theta=5000.0)),
    "gpt_neox: rope_parameters and old names": NEOX | dict(
        rotary_pct=0.5, rotary_emb_base=5000,
        rope_parameters=dict(rope_type="default", rope_theta=7000.0, partial_rotary_factor=1.0)),
    "gpt_neox: old names and rope_theta": NEOX | dict(rotary_emb_base=5000, rope_theta=7000.0),
    "gpt_neox: partial_rotary_factor": NEOX | dict(partial_rotary_factor=0.5),
    "gpt_neox: rope_scaling": NEOX | dict(rotary_emb_base=5000, rope_scaling=dict(type="linear", factor=2.0)),
    "gpt_neox: sequential, no bias, tied": NEOX | dict(
        use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True),
}

FIELDS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "n_inner", "vocab_size", "max_position_embeddings", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
    "hidden_act", "activation_function", "rope_parameters", "rotary_dim", "attention_bias", "mlp_bias",
    "tie_word_embeddings", "use_parallel_residual", "initializer_range", "bos_token_id", "eos_token_id")


def windows(model):
    """Of each layer: how many tokens it sees, itself included, or null for all before it."""
    config = model.config
    if config.model_type == "mistral":
        return [config.sliding_window] * config.num_hidden_layers
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [config.sliding_window if kind == "sliding_attention" else None for kind in kinds]


def understood(given):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(given))
        config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    rotary = getattr(model.base_model, "rotary_emb", None)
    made = {"parameters": sum(p.numel() for p in model.parameters()), "windows": windows(model),
            "shapes": shapes(model)}
    if rotary is not None:
        made["rotary_dims"] = 2 * rotary.inv_freq.numel()
    return made | {key: getattr(config, key) for key in FIELDS if hasattr(config, key)}


def shapes(model):
    """Of the parameters outside of layers and in the first layer, by their names in a file."""
    is_neox = model.config.model_type == "gpt_neox"
    return {"embed_out.weight" if is_neox and name == "lm_head.weight" else name: list(p.shape)
            for name, p in model.named_parameters() if not any(f".{i}." in name for i in range(1, 100))}


def reference(given):
    try:
        return {"config": given, "transformers": understood(given)}
    except Exception as error:
        return {"config": given, "error": type(error).__name__}


def references():
    return {name: reference(given) for name, given in {**PUBLISHED, **VARIANTS}.items()}
