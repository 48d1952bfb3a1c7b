"""Logits of an exported RegNet by torchvision, beside those that zero_launch predict wrote: prints the largest difference.

  vision_parity.py MODEL LOGITS.npy IMAGES
"""
import glob
import json
import os
import struct
import sys

import numpy
import torch
import torchvision
from PIL import Image
from torchvision import transforms


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(data[begin:end], {"F32": "<f4", "I64": "<i8"}[entry["dtype"]])
        tensors[name] = torch.from_numpy(values.copy().reshape(entry["shape"]))
    return tensors


def main():
    folder, logits, images = sys.argv[1:]
    torch.set_num_threads(1)
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    size = config["image_size"]
    model = torchvision.models.regnet_y_400mf(num_classes=config["num_classes"])
    model.load_state_dict(read_safetensors(os.path.join(folder, "model.safetensors")))
    model.eval()
    view = transforms.Compose([transforms.Resize((size * 256 + 112) // 224), transforms.CenterCrop(size),
                               transforms.ToTensor(),
                               transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    files = sorted(glob.glob(os.path.join(images, "**", "*.png"), recursive=True))
    with torch.no_grad():
        theirs = model(torch.stack([view(Image.open(file).convert("RGB")) for file in files])).numpy()
    ours = numpy.load(logits)
    difference = float(abs(theirs - ours).max() / abs(theirs).max())
    print(f"{len(files)} images of {size} pixels: logits differ by {difference:.1e} of the largest at most")
    sys.exit(difference > 1e-5)


if __name__ == "__main__":
    main()
