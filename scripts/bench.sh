#!/usr/bin/env bash
# Measure what docs/performance.md tells, and print it in Markdown.
#
#   scripts/bench.sh [adam|layer|step|comm|checkpoint|ranks|accuracy]...    all without a word; half an hour on two cores
#
# ranks: two ranks in turn with two processes that do not talk, FSDP2 and DDP. accuracy: what masters, states and gradients
# in fewer bits do to the loss. ROUNDS sets how many rounds there are, and CHECKPOINT_DIR where checkpoints are written.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh" >&2
set_mpi_environment
program="$zero_build/bin/zero_launch"
tables() { python3 "$zero_root/scripts/bench/tables.py" "$@"; }

bench() {  # words of zero_launch bench: the command and its table
  echo
  echo "    zero_launch bench $*"
  echo
  "$program" bench "$@" ${ROUNDS:+--rounds "$ROUNDS"} --json | tables
}

adam() { bench adam; }
layer() { bench layer; }
step() { for dtype in fp32 bf16; do bench step --dtype "$dtype"; done; }
comm() { bench comm --ranks 2; }

save_peer() {  # zero|torch|h5py|dcp ranks
  local words=("$zero_root/scripts/bench/save_peers.py" "$1" --bytes 1485020160 --folder "${CHECKPOINT_DIR:-/tmp}")
  case "$1" in
    zero) ZERO_PROGRAM="$program" python3 "${words[@]}" --ranks "$2" ;;
    torch) "$zero_venv/bin/python" -W ignore "${words[@]}" ;;
    h5py) /usr/bin/python3 "${words[@]}" ;;  # whose package it is
    dcp) OMP_NUM_THREADS=1 "$zero_venv/bin/python" -W ignore -m torch.distributed.run --standalone \
      --nproc-per-node "$2" "${words[@]}" 2>/dev/null ;;
  esac
}

checkpoint() {  # gpt2-124m with moments is 1.4 GiB
  local out=(--out "${CHECKPOINT_DIR:-/tmp}")
  for ranks in 1 2; do bench checkpoint "${out[@]}" --size 1416MiB --ranks $ranks; done
  for ranks in 1 2; do bench saves "${out[@]}" --preset gpt2-124m --seq-len 128 --ranks $ranks; done
  echo
  echo "    scripts/bench.sh checkpoint"
  echo
  for ((round = 0; round < ${ROUNDS:-5}; ++round)); do
    for ranks in 1 2; do save_peer zero $ranks; save_peer dcp $ranks; done
    save_peer torch
    save_peer h5py
  done | tables --medians
}

peer() {  # fsdp2|ddp dtype
  OMP_NUM_THREADS=1 "$zero_venv/bin/python" -W ignore -m torch.distributed.run --standalone --nproc-per-node 2 \
    "$zero_root/scripts/bench/peers.py" "$1" "$2" 4 2>/dev/null
}

ranks() {
  echo
  echo "    scripts/bench.sh ranks"
  echo
  for ((round = 0; round < ${ROUNDS:-5}; ++round)); do
    for dtype in fp32 bf16; do
      "$program" bench step --ranks 2 --dtype "$dtype" --rounds 1 --json
      peer fsdp2 "$dtype"
      peer ddp "$dtype"
    done
  done | tables --rounds
}

accuracy() {
  local headers
  headers="$(zero_torch)/include/torch/csrc/api/include/torch"
  echo
  echo "    scripts/bench.sh accuracy"
  echo
  python3 "$zero_root/scripts/bench/accuracy.py" "$program" "$headers/nn" "$headers/data" | tables
}

for kind in "${@:-all}"; do
  case "$kind" in
    all | adam | layer | step | comm | checkpoint | ranks | accuracy) ;;
    *) echo "usage: scripts/bench.sh [adam|layer|step|comm|checkpoint|ranks|accuracy]..." >&2; exit 2 ;;
  esac
done
echo "$(date -u +%F), commit $(git -C "$zero_root" describe --always --dirty), $(nproc) cores of" \
  "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1), torch $torch_version"
[ "${*:-all}" = all ] && set -- adam layer step comm checkpoint ranks accuracy
for kind in "$@"; do "$kind"; done
