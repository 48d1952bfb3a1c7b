"""Small models of every family and variant: class and configuration of each, as transformers names them."""
from transformers import (
    GPT2Config, GPTJConfig, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config)

VOCAB, RANGE = 64, 0.2
COMMON = dict(vocab_size=VOCAB, initializer_range=RANGE, bos_token_id=None, eos_token_id=None)  # nothing ends a text


def rotary_family(config, hidden, heads, kv_heads, layers=2, positions=128, **rest):
    return config(hidden_size=hidden, intermediate_size=hidden + 16, num_hidden_layers=layers,
                  num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=positions,
                  **{"tie_word_embeddings": False, **COMMON, **rest})


def neox(hidden, heads, **rest):
    return GPTNeoXConfig(hidden_size=hidden, intermediate_size=hidden * 2, num_hidden_layers=2,
                         num_attention_heads=heads, max_position_embeddings=128, **COMMON, **rest)


# Of four frequencies the first stays, the second lies between, the others are divided.
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=128)
YARN_ROPE = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
LINEAR_ROPE = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)

CASES = {
    "gpt2": lambda: GPT2Config(n_embd=24, n_layer=2, n_head=3, n_positions=128, resid_pdrop=0.0,
                               embd_pdrop=0.0, attn_pdrop=0.0, **COMMON),
    "llama": lambda: rotary_family(LlamaConfig, 32, heads=4, kv_heads=2),
    "llama_biases": lambda: rotary_family(LlamaConfig, 24, heads=3, kv_heads=1, attention_bias=True,
                                          mlp_bias=True, rms_norm_eps=1e-2),
    "llama3": lambda: rotary_family(LlamaConfig, 24, heads=3, kv_heads=1, positions=1024,
                                    tie_word_embeddings=True, rope_parameters=LLAMA3_ROPE),
    "llama_yarn": lambda: rotary_family(LlamaConfig, 32, heads=2, kv_heads=1, positions=256,
                                        rope_parameters=YARN_ROPE),
    "llama_linear": lambda: rotary_family(LlamaConfig, 24, heads=3, kv_heads=3, rope_parameters=LINEAR_ROPE),
    "mistral": lambda: rotary_family(MistralConfig, 32, heads=4, kv_heads=1, sliding_window=8),
    "qwen2": lambda: rotary_family(Qwen2Config, 24, heads=4, kv_heads=2, tie_word_embeddings=True),
    "qwen2_sliding": lambda: rotary_family(Qwen2Config, 24, heads=4, kv_heads=2, layers=3,
                                           use_sliding_window=True, sliding_window=6, max_window_layers=1),
    "qwen3": lambda: rotary_family(Qwen3Config, 20, heads=4, kv_heads=2, head_dim=8),
    "gptj": lambda: GPTJConfig(n_embd=32, n_layer=2, n_head=2, rotary_dim=8, n_positions=128, resid_pdrop=0.0,
                               embd_pdrop=0.0, attn_pdrop=0.0, **COMMON),
    "gpt_neox": lambda: neox(32, heads=2),
    "gpt_neox_sequential": lambda: neox(24, heads=3, use_parallel_residual=False),
    "gpt_neox_no_bias": lambda: neox(24, heads=3, attention_bias=False, hidden_act="gelu_fast",
                                     rope_parameters=dict(rope_type="default", rope_theta=1000.0,
                                                          partial_rotary_factor=0.5)),
    "llama_long": lambda: rotary_family(LlamaConfig, 16, heads=2, kv_heads=1, layers=1, positions=16384),
}

# Written with the keys of transformers 4, as most published folders have them.
OLD_KEYS = {"llama3", "llama_linear", "mistral", "qwen2_sliding", "gpt_neox_sequential"}
