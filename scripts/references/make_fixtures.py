"""Write tests/references: make_fixtures.py FOLDER [CASE...]. Its README says what each field is."""
import json
import sys
from pathlib import Path

import torch

import configs
import first_values
import rotary
from cases import CASES
from layouts import save_layouts
from models import (continue_greedily, file_names, gradient_norm, load, logits_of, loss_sum, random_tokens,
                    save_case, train)

ROWS, LENGTH, STEPS = 2, 24, 5
POSITIONS = (0, 5, 11, LENGTH - 1)
PROMPT, CONTINUED = 8, 16
LONG_LENGTH, LONG_POSITIONS = 8200, (8191, 8192, 8198, 8199)


def shortest(values):
    """fp32 values as the fewest digits that read back as the same."""
    return [float(f"{value:.9g}") for value in values.float().flatten().tolist()]


def logits_at(model, tokens, positions):
    with torch.no_grad():
        logits = logits_of(model, tokens)
    return [shortest(row[position]) for row in logits for position in positions]


def spread(numel, count=6):
    """Flat indices from the first to the last."""
    return sorted({i * (numel - 1) // (count - 1) for i in range(count)})


def gradient(parameter):
    flat = parameter.grad.flatten()
    at = spread(flat.numel())
    return {"shape": list(parameter.shape), "norm": flat.double().norm().item(), "at": at,
            "values": shortest(flat[at])}


def forward_and_backward(folder, samples):
    model = load(folder)
    total = loss_sum(model, samples)
    (total / samples[:, 1:].numel()).backward()
    names = file_names(model, folder)
    return {"loss_sum": total.item(), "gradient_norm": gradient_norm(model),
            "gradients": {names[name]: gradient(p) for name, p in model.named_parameters()}}


def training(folder, samples):
    losses, norms = zip(*train(load(folder), [samples] * STEPS))
    return {"losses": losses, "gradient_norms": norms}


def greedy(folder, prompt):
    tokens, margins = continue_greedily(load(folder), prompt, CONTINUED)
    return {"prompt": prompt, "tokens": tokens, "margins": [float(f"{margin:.6g}") for margin in margins]}


def reference(folder):
    samples = random_tokens(ROWS, LENGTH + 1, seed=7)
    tokens = samples[:, :-1]
    return {"samples": samples.tolist(), "logits_at": [[row, p] for row in range(ROWS) for p in POSITIONS],
            "logits": logits_at(load(folder), tokens, POSITIONS),
            "logits_bf16": logits_at(load(folder, torch.bfloat16), tokens, POSITIONS),
            **forward_and_backward(folder, samples), "training": training(folder, samples),
            "greedy": greedy(folder, tokens[0, :PROMPT].tolist())}


def long_reference(folder):
    """Positions above 8,000; the tokens have a formula, to keep the file small."""
    tokens = torch.tensor([[(i * i + 7919 * i) % 61 for i in range(LONG_LENGTH)]])
    return {"num_tokens": LONG_LENGTH, "logits_at": [[0, p] for p in LONG_POSITIONS],
            "logits": logits_at(load(folder), tokens, LONG_POSITIONS)}


def as_json(value, depth=2):
    """A line for each entry of the outer objects."""
    if depth == 0 or not isinstance(value, dict):
        return json.dumps(value)
    lines = ",\n".join(f"{json.dumps(key)}: {as_json(entry, depth - 1)}" for key, entry in value.items())
    return "{\n" + lines + "\n}"


def main():
    root, names = Path(sys.argv[1]), sys.argv[2:] or CASES
    for name in names:
        save_case(name, root / name)
        made = long_reference(root / name) if name.endswith("_long") else reference(root / name)
        (root / name / "reference.json").write_text(as_json(made) + "\n")
        print(name, made.get("loss_sum", ""), made.get("gradient_norm", ""))
    if names is CASES:
        save_layouts(root)
        (root / "rotary.json").write_text(as_json(rotary.tables()) + "\n")
        (root / "configs.json").write_text(as_json(configs.references()) + "\n")
        (root / "first_values.json").write_text(as_json(first_values.references(), 3) + "\n")


if __name__ == "__main__":
    main()
