#!/usr/bin/env bash
# Install what is missing, then build into build/. The program is build/bin/zero_launch.
# Arguments are passed on to cmake: scripts/build.sh -DZERO_CUDA=OFF
#
#   ZERO_TARGET   what to build (default: all, with the tests that are not slow)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$zero_root/scripts/setup.sh"
mkdir -p "$zero_build"
cmake -S "$zero_root" -B "$zero_build" -G Ninja -DZERO_TORCH="$(zero_torch)" "$@" >"$zero_build/configure.log" 2>&1 || {
  cat "$zero_build/configure.log" >&2
  exit 3
}
read -ra targets <<<"${ZERO_TARGET:-all}"
cmake --build "$zero_build" --parallel "$(nproc)" --target "${targets[@]}"
