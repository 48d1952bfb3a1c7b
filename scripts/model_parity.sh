#!/usr/bin/env bash
# Compare training and exports with transformers on the models of tests/references; print a table in Markdown.
#
#   scripts/model_parity.sh [--program PATH] [CASE...]    all cases without a name; builds zero_launch without a path
#   scripts/model_parity.sh [--program PATH] --texts [CASE...]    the texts that they make instead
#   scripts/model_parity.sh [--program PATH] --adapters [CASE...]    adapters, beside peft
#
# Exit code 1 where a number is beyond its limit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$zero_root/scripts/references/python.sh"

program=
if [ "${1:-}" = --program ]; then
  program="$(realpath "$2")"
  shift 2
else
  ZERO_TARGET=zero_launch "$zero_root/scripts/build.sh" >&2
  program="$zero_build/bin/zero_launch"
fi
python="$(transformers_python "$transformers_version")"
export OMP_NUM_THREADS=1 TRANSFORMERS_OFFLINE=1 HF_HUB_OFFLINE=1
set_mpi_environment
if [ "${1:-}" = --texts ]; then
  shift
  exec "$python" "$zero_root/scripts/references/text_parity.py" "$program" "$zero_root/tests/references" "$@"
fi
if [ "${1:-}" = --adapters ]; then
  shift
  exec "$(peft_python)" "$zero_root/scripts/references/lora_parity.py" "$program" "$zero_root/tests/references" "$@"
fi
python_4="$(transformers_python "$transformers_4_version")"
"$python" "$zero_root/scripts/references/parity.py" "$program" "$zero_root/tests/references" "$python_4" "$@"
