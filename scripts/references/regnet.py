"""What torchvision makes of its RegNets, as tests/references/regnet.json: names and shapes of each tensor of
regnet_y_400mf, the parameters of every model, the losses of ten steps of SGD from weights and images that a formula gives.

  regnet.py FILE        torchvision comes from PyPI, for the torch that is there (scripts/references.sh regnet)
"""
import json
import sys

import torch
import torchvision

STEPS, ROWS, SIZE, CLASSES, RATE = 10, 16, 64, 10, 0.001
MODELS = ["x_400mf", "x_800mf", "x_1_6gf", "x_3_2gf", "x_8gf", "x_16gf", "x_32gf",
          "y_400mf", "y_800mf", "y_1_6gf", "y_3_2gf", "y_8gf", "y_16gf", "y_32gf", "y_128gf"]


def noise(numel, key):
    """numbers in [-1, 1) that look random, the same in any language but for their last digits"""
    values = torch.sin(torch.arange(numel, dtype=torch.float64) * 12.9898 + key * 78.233) * 43758.5453
    return ((values - values.floor()) * 2 - 1).float()


def fill(model):
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                parameter.copy_(noise(parameter.numel(), number).view_as(parameter) * (6 / fan_in) ** 0.5)
            elif name.endswith("bias"):
                parameter.zero_()
            elif name.endswith(".c.1.weight"):
                parameter.fill_(0.2)  # else ten steps would make of rounding a difference


def losses_of(model):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        images = noise(ROWS * 3 * SIZE * SIZE, 1000 + step).view(ROWS, 3, SIZE, SIZE)
        targets = torch.arange(ROWS) * 7 % CLASSES
        loss = torch.nn.functional.cross_entropy(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    numbers = {"torchvision": torchvision.__version__, "parameters": {}, "rows": ROWS, "size": SIZE, "lr": RATE,
               "classes": CLASSES}
    for name in MODELS:
        model = getattr(torchvision.models, "regnet_" + name)()
        numbers["parameters"][name] = sum(p.numel() for p in model.parameters())
        del model
    model = torchvision.models.regnet_y_400mf(num_classes=CLASSES)
    fill(model)
    numbers["tensors"] = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    numbers["losses"] = losses_of(model)
    numbers["statistics"] = {name: model.get_buffer(name).double().sum().item()
                             for name, _ in model.named_buffers() if name.startswith("stem.")}
    with open(sys.argv[1], "w") as file:
        json.dump(numbers, file)


if __name__ == "__main__":
    main()
