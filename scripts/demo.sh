#!/usr/bin/env bash
# README's first command: build, then train a small GPT on two MPI ranks with real text (the C++ headers of LibTorch),
# print a sample, and resume the run. Takes three to four minutes on two cores.
#
#   ZERO_DEMO_OUT   folder of the run (default: runs/demo, made anew)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$zero_root/scripts/build.sh"
set_mpi_environment
out="${ZERO_DEMO_OUT:-$zero_root/runs/demo}"
rm -rf "$out"

train() {  # train STEPS [more flags]
  mpirun -n 2 "$zero_build/bin/zero_launch" train --config "$zero_root/examples/configs/demo.toml" \
    --data "$(zero_torch)/include/torch/csrc/api/include/torch/nn" --out "$out" --steps "$@"
}

say "training 60 steps on two ranks; loss starts near 5.6"
train 60
say "resuming the run for another 20 steps; loss should end between 2.2 and 2.9"
train 80 --sample "  Tensor forward("
python3 - "$out/metrics.jsonl" <<'PY'
import json, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["type"] == "step"]
numbers, last = [r["step"] for r in steps], steps[-1]["loss"]
assert numbers == list(range(1, 81)), f"steps are {numbers}"
assert 2.0 < last < 3.0, f"the last loss is {last}, outside 2.0 .. 3.0"
print(f"demo: 80 steps, loss {steps[0]['loss']:.3f} -> {last:.3f}, as expected")
PY
