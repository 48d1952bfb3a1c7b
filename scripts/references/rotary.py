"""Cosines and sines of every rotary embedding, as transformers computes them."""
import torch
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.utils import logging

logging.set_verbosity_error()  # some tables are there because their numbers do not fit together

POSITIONS = [0, 1, 17, 1000, 8191, 8192, 100000]
MAX_POSITIONS, HEAD_DIM = 131072, 16

ROPES = {
    "default": dict(rope_type="default", rope_theta=10000.0),
    "default_theta_500000": dict(rope_type="default", rope_theta=500000.0),
    "default_theta_1000000": dict(rope_type="default", rope_theta=1000000.0),
    "linear": dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
    "llama3": dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=8192),
    "llama3_factor_32": dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=8192),
    "yarn": dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768),
    "yarn_betas": dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, beta_fast=16.0, beta_slow=2.0,
                       original_max_position_embeddings=4096),
    "yarn_not_truncated": dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, truncate=False,
                               original_max_position_embeddings=4096),
    "yarn_attention_factor": dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, attention_factor=1.5,
                                  original_max_position_embeddings=2048),
    # A ramp from pair 4 to behind the last value.
    "yarn_long_ramp": dict(rope_type="yarn", rope_theta=10.0, factor=4.0, original_max_position_embeddings=800),
    # Nothing between short waves and long ones: the ramp's ends are one, at 0 or just before pair 2.
    "yarn_no_ramp_at_0": dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=6),
    "yarn_no_ramp_at_2": dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=65.227, beta_slow=65.227,
                              truncate=False, original_max_position_embeddings=4096),
    "yarn_mscale": dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, mscale=1.0, mscale_all_dim=0.5,
                        original_max_position_embeddings=4096),
}


def values(tensor):
    return [float(f"{value:.9g}") for value in tensor.float().flatten().tolist()]


def table(embedding, config):
    rotary = embedding(config)
    made = {"rope_parameters": config.rope_parameters, "head_dim": HEAD_DIM,
            "max_position_embeddings": MAX_POSITIONS, "attention_scaling": rotary.attention_scaling,
            "inv_freq": values(rotary.inv_freq)}
    for key, dtype in (("", torch.float32), ("_bf16", torch.bfloat16)):
        cos, sin = rotary(torch.zeros(1, dtype=dtype), torch.tensor([POSITIONS]))
        half = cos.shape[-1] // 2  # the other half repeats it
        made |= {"cos" + key: [values(row[:half]) for row in cos[0]],
                 "sin" + key: [values(row[:half]) for row in sin[0]]}
    return made


def gptj_table(dim=8):
    """GPT-J keeps one table of fp32 sines, then cosines; a bf16 model rounds it when it is applied to q and k."""
    rows = create_sinusoidal_positions(max(POSITIONS) + 1, dim)[POSITIONS]
    sin, cos = rows.split(dim // 2, dim=1)
    return {"rotary_dim": dim, "cos": [values(row) for row in cos], "sin": [values(row) for row in sin]}


def tables():
    shape = dict(hidden_size=2 * HEAD_DIM, num_attention_heads=2, max_position_embeddings=MAX_POSITIONS)
    made = {name: table(LlamaRotaryEmbedding, LlamaConfig(rope_parameters=dict(rope), **shape))
            for name, rope in ROPES.items()}
    made["gpt_neox"] = table(GPTNeoXRotaryEmbedding, GPTNeoXConfig(**shape))
    made["gptj"] = gptj_table()
    return {"positions": POSITIONS, "tables": made}
