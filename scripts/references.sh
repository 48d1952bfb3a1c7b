#!/usr/bin/env bash
# Make tests/references again: small models in Hugging Face's format, and what transformers makes of them.
#
#   scripts/references.sh [CASE...]    all cases without a name
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$zero_root/scripts/references/python.sh"

python="$(transformers_python "$transformers_version")"
export OMP_NUM_THREADS=1 TRANSFORMERS_OFFLINE=1 HF_HUB_OFFLINE=1
cd "$zero_root/scripts/references"
"$python" make_fixtures.py "$zero_root/tests/references" "$@"
