"""A model folder's loss on each of the first samples of a file of uint16, as JSON, under any version of transformers.

    losses.py FOLDER DATA LENGTH COUNT float32|bfloat16

Fails where the folder lacks a parameter, or has one that the model does not.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

from models import load, loss_sum, read_samples


def check_names(folder):
    _, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    wrong = {key: sorted(map(str, names)) for key, names in info.items() if names}
    if wrong:
        raise SystemExit(f"{folder}: {wrong}")


@torch.no_grad()
def losses(folder, data, length, count, dtype=torch.float32):
    model = load(folder, dtype)
    return [loss_sum(model, sample[None]).item() / length for sample in read_samples(data, length, count)]


if __name__ == "__main__":
    folder, data, length, count, dtype = sys.argv[1:]
    check_names(folder)
    print(json.dumps(losses(folder, data, int(length), int(count), getattr(torch, dtype))))
