#!/usr/bin/env bash
# README's second command: build, then run every test. Tests that need a GPU report themselves skipped without one.
# Arguments are passed on to ctest: scripts/test.sh -R engine
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$zero_root/scripts/build.sh"
set_mpi_environment
export CUDA_VISIBLE_DEVICES=  # tests of CPU ranks are that on any machine; those labelled gpu see them all
ctest --test-dir "$zero_build" --output-on-failure --no-tests=error "$@"
