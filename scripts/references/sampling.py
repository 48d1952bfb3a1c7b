"""Logits as transformers' filters leave them, one behind the other in the order of its generate().

    sampling.py FILE
"""
import json
import sys

import torch
from transformers import (
    LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

SETTINGS = [{"temperature": 0.7}, {"top_k": 5}, {"top_k": 1}, {"top_p": 0.6}, {"top_p": 0.01}, {"min_p": 0.2}, {"repetition_penalty": 1.3},
            {"repetition_penalty": 0.8, "temperature": 1.5}, {"temperature": 0.5, "top_k": 8, "top_p": 0.8, "min_p": 0.05},
            {"repetition_penalty": 1.2, "temperature": 1.1, "top_k": 12, "top_p": 0.9, "min_p": 0.1}]
VOCAB = 24


# In the order of generation/utils.py.
KINDS = {"repetition_penalty": RepetitionPenaltyLogitsProcessor, "temperature": TemperatureLogitsWarper, "top_k": TopKLogitsWarper,
         "top_p": TopPLogitsWarper, "min_p": MinPLogitsWarper}


def case(settings, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, VOCAB, generator=generator) * 3
    if seed % 2:
        logits = logits.round()  # some are equal
    text = torch.randint(0, VOCAB, (1, 6), generator=generator)
    found = LogitsProcessorList(kind(settings[name]) for name, kind in KINDS.items() if name in settings)(text, logits.clone())[0].tolist()
    return {"settings": settings, "logits": [float(f"{value:.9g}") for value in logits[0].tolist()], "text": text[0].tolist(),
            "filtered": [None if value == float("-inf") else value for value in found]}


if __name__ == "__main__":
    cases = [case(settings, seed) for settings in SETTINGS for seed in range(4)]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")
