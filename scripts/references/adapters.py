"""Adapters of small models, as peft makes and trains them.

    adapters.py MODELS FOLDER
"""
import json
import sys
from pathlib import Path

import torch

from lora_parity import load_adapter, make_adapter
from models import logits_of, loss_sum, train

CASES, STEPS = ("llama", "gpt2", "qwen3"), 5


def reference_of(name, models, folder):
    """What peft computes with the samples of the model's own reference."""
    samples = torch.tensor(json.loads((models / name / "reference.json").read_text())["samples"])
    with torch.no_grad():
        model = load_adapter(name, models, folder).eval()
        logits = logits_of(model, samples[:, :-1])[:, -1]
        loss = loss_sum(model, samples).item()
    trained = load_adapter(name, models, folder, is_trained=True).eval()
    losses, norms = zip(*train(trained, [samples] * STEPS))
    return {"logits": logits.tolist(), "loss_sum": loss, "training": {"losses": losses, "gradient_norms": norms}}


def main():
    models, target = Path(sys.argv[1]), Path(sys.argv[2])
    for name in CASES:
        folder = target / name
        make_adapter(name, models, folder)
        (folder / "README.md").unlink(missing_ok=True)  # of peft's, with links
        path = folder / "adapter_config.json"
        config = json.loads(path.read_text())
        config["base_model_name_or_path"] = name
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        (folder / "reference.json").write_text(json.dumps(reference_of(name, models, folder)) + "\n")


if __name__ == "__main__":
    main()
