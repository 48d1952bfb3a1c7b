#!/usr/bin/env bash
# A step of llama-10m by zero_launch beside transformers with torch's fused AdamW, of the same weights: one thread,
# sequence 512, micro-batch 4, in turn; prints a table in Markdown. bf16 is torch's autocast, with fp32 weights, as ours.
#
#   scripts/bench/beside_transformers.sh [ROUNDS]    5 rounds without a number, 8 steps each; transformers comes from PyPI
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source "$zero_root/scripts/references/python.sh"

rounds="${1:-5}"
[[ "$rounds" =~ ^[1-9][0-9]*$ ]] || { say "ROUNDS is '$rounds', a number from 1"; exit 2; }
ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh" >&2
python="$(transformers_python "$transformers_version")"
"$python" -W ignore "$zero_root/scripts/bench/beside_transformers.py" "$zero_build/bin/zero_launch" "$rounds"
