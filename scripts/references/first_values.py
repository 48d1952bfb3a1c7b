"""How transformers starts the parameters of small models: mean, deviation and quantiles of each, drawn from one seed."""
import torch
from transformers import (
    AutoModelForCausalLM, GPT2Config, GPTJConfig, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config)

QUANTILES = 32
VOCAB, RANGE = 512, 0.05
COMMON = dict(vocab_size=VOCAB, initializer_range=RANGE, bos_token_id=None, eos_token_id=None)


def llama_like(config, **rest):
    return config(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, **COMMON, **rest)


MODELS = {
    "gpt2": lambda: GPT2Config(n_embd=128, n_layer=2, n_head=4, n_positions=64, **COMMON),
    "gptj": lambda: GPTJConfig(n_embd=128, n_layer=2, n_head=4, n_positions=64, rotary_dim=16,
                               tie_word_embeddings=False, **COMMON),
    "gpt_neox": lambda: GPTNeoXConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                                      num_attention_heads=4, max_position_embeddings=64, **COMMON),
    "llama": lambda: llama_like(LlamaConfig, pad_token_id=3, attention_bias=True, mlp_bias=True),
    "mistral": lambda: llama_like(MistralConfig),
    "qwen2": lambda: llama_like(Qwen2Config),
    "qwen3": lambda: llama_like(Qwen3Config, head_dim=32),
}


def rounded(tensor):
    return [float(f"{value:.7g}") for value in tensor.tolist()]


def moments(values):
    flat = values.detach().double().flatten()
    grid = torch.linspace(0, 1, QUANTILES + 1, dtype=torch.double)
    return {"mean": flat.mean().item(), "std": flat.std(unbiased=False).item(),
            "zero_rows": [row for row in range(len(values)) if values.dim() > 1 and not values[row].any()],
            "quantiles": rounded(torch.quantile(flat, grid))}


def references():
    made = {}
    for name, config in MODELS.items():
        torch.manual_seed(11)
        model = AutoModelForCausalLM.from_config(config())
        made[name] = {"config": model.config.to_diff_dict() | {"model_type": model.config.model_type},
                      "parameters": {fqn: moments(p) for fqn, p in model.named_parameters()}}
    return made
