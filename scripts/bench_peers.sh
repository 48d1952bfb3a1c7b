#!/usr/bin/env bash
# One update on the host by our kernel, torch's fused AdamW and DeepSpeed's CPUAdam, in turn on the same arrays; prints a
# table in Markdown.
#
#   scripts/bench_peers.sh [THREADS]    all cores without a number; ROUNDS (15) sets how many rounds there are
#
# DeepSpeed comes from PyPI into an environment of its own beside torch's, and builds its extension there; where it cannot
# be had, a line says so and the others are measured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepspeed_version=0.19.6
peers="$(dirname "$zero_venv")/deepspeed-$deepspeed_version"
library="$zero_build/libzero_adam_peer.so"

# torch is the one that is there already.
get_deepspeed() {
  [ -e "$peers/complete" ] && return
  say "getting DeepSpeed $deepspeed_version into $peers"
  rm -rf "$peers"
  "$zero_venv/bin/python" -m venv "$peers" &&
    echo "$zero_venv"/lib/python3*/site-packages >"$(echo "$peers"/lib/python3*/site-packages)/torch.pth" &&
    "$peers/bin/pip" install --quiet "deepspeed==$deepspeed_version" >&2 && touch "$peers/complete"
}

ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh" >&2
"${CXX:-c++}" -std=c++20 -O2 -shared -fPIC -I"$zero_root" "$zero_root/scripts/bench/adam_peer.cpp" -o "$library" \
  "$zero_build/offload/libzero_offload.a" "$zero_build/base/libzero_base.a" -ltbb -lhwloc
python="$zero_venv/bin/python"
get_deepspeed && python="$peers/bin/python"

# DeepSpeed speaks on standard output: the rows are the last line. Threads of one contestant that wait must not turn on
# the cores of the next.
OMP_WAIT_POLICY=passive PATH="$(dirname "$python"):$PATH" DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR="$peers/extensions" \
  "$python" -W ignore "$zero_root/scripts/bench/adam_peers.py" "$library" "${1:-$(nproc)}" "${ROUNDS:-15}" |
  tail -1 | python3 "$zero_root/scripts/bench/tables.py"
