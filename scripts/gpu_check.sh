#!/usr/bin/env bash
# Check and measure what needs a GPU, in at most eight minutes, in order of worth:
#
#   scripts/gpu_check.sh OUT                    build, then check
#   scripts/gpu_check.sh OUT --bundle FOLDER    what scripts/gpu_bundle.sh put there: nothing is built
#
# Each stage prints and keeps its result at once in OUT: check.log, report.json, report.md. Exit code 0: all that could be
# tried passed; 1: a stage failed; 3: there is no GPU. More flags: scripts/gpu_check.sh --help
set -euo pipefail
zero_own_help=yes
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

set_mpi_environment
case " $* " in
  *" --bundle "* | *" --bundle="* | *" --help "* | *" -h "*) ;;
  *) ZERO_TARGET="zero_launch zero_cuda gpu_tests gpu_kernel_tests" "$zero_root/scripts/build.sh" -DZERO_CUDA=ON >&2
     [ -x "$zero_venv/bin/python" ] && export PATH="$zero_venv/bin:$PATH" ;;
esac
exec python3 "$zero_root/scripts/gpu/check.py" --build "$zero_build" "$@"
