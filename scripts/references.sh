#!/usr/bin/env bash
# Make tests/references again: small models in Hugging Face's format, and what transformers and torchvision make of
# theirs.
#
#   scripts/references.sh [CASE...]    all cases without a name; regnet alone: what torchvision makes of its RegNets
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$zero_root/scripts/references/python.sh"

python="$(transformers_python "$transformers_version")"
export OMP_NUM_THREADS=1 TRANSFORMERS_OFFLINE=1 HF_HUB_OFFLINE=1
cd "$zero_root/scripts/references"
[ "$*" = regnet ] || "$python" make_fixtures.py "$zero_root/tests/references" "$@"
[ $# -gt 0 ] && [ "$*" != regnet ] || "$(torchvision_python)" regnet.py "$zero_root/tests/references/regnet.json"
