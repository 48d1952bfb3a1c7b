#!/usr/bin/env bash
# Train a RegNet for a few steps, export it, load it in torchvision and compare logits of all pictures: both the weights and
# the view of an image are theirs. Exit code 1: they differ by more than 1e-5.
#
#   scripts/vision_parity.sh        torchvision comes from PyPI
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$zero_root/scripts/references/python.sh"

ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh" >&2
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
zero="$zero_build/bin/zero_launch"
"$zero_root/scripts/make_shapes.py" "$folder/shapes" --count 200 --size 80
"$zero" train -q --model regnet --data "$folder/shapes" --out "$folder/run" --steps 5 --global-batch 8 --micro-batch 8 \
  --model-config image_size=64
"$zero" export -q "$folder/run" --to "$folder/model"
"$zero" predict -q "$folder/model" --data "$folder/shapes" --out "$folder/logits.npy"
"$(torchvision_python)" "$zero_root/scripts/references/vision_parity.py" "$folder/model" "$folder/logits.npy" "$folder/shapes"
