#!/usr/bin/env bash
# README's first command: build, then train a small GPT on two MPI ranks with real text (the C++ headers of LibTorch),
# print a sample, and resume the run. On two cores four minutes are spent compiling and one training.
#
#   ZERO_DEMO_OUT   folder of the run: a new one, or that of an earlier run, which goes (default: runs/demo)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# = 0 ] || { say "takes no arguments; --help tells more"; exit 2; }

ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh"
set_mpi_environment
out="${ZERO_DEMO_OUT:-$zero_root/runs/demo}"
if [ -n "${ZERO_DEMO_OUT:-}" ] && [ ! -e "$out/metrics.jsonl" ] && [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
  say "ZERO_DEMO_OUT=$out holds something that is no run; name a new folder"
  exit 2
fi
rm -rf "$out"

train() {  # train STEPS [more flags]
  mpirun -n 2 "$zero_build/bin/zero_launch" train --config "$zero_root/examples/configs/demo.toml" \
    --data "$(zero_torch)/include/torch/csrc/api/include/torch/nn" --out "$out" \
    --schedule constant --eval-fraction 0 --steps "$@"
}

say "training 240 steps on two ranks; the loss starts at 5.51"
train 240
say "resuming the run for another 40 steps; the loss should end between 1.2 and 1.9"
train 280 --sample "  Tensor forward("
python3 - "$out/metrics.jsonl" <<'PY'
import json, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "step"]
numbers, last = [r["step"] for r in steps], steps[-1]["loss"]
assert numbers == list(range(1, 281)), f"steps are {numbers}"
assert 1.2 < last < 1.9, f"the last loss is {last}, outside 1.2 .. 1.9"
print(f"demo: 280 steps, loss {steps[0]['loss']:.3f} -> {last:.3f}, as expected")
PY
