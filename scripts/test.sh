#!/usr/bin/env bash
# README's second command: build, then test. Tests that need a GPU report themselves skipped without one.
#
#   scripts/test.sh              what every change must pass: each room, training on one and two ranks, a resume, a killed save
#   scripts/test.sh --slow       what that leaves out: crashes, clusters, installing, all scenarios, all wrong inputs
#   scripts/test.sh --all        both
#   scripts/test.sh --times      (with one of these) then print the seconds that each target and each test took
#
# Other arguments are passed on to ctest: scripts/test.sh -R engine, scripts/test.sh --slow -R crash.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

which=default prints_times=false arguments=()
for argument in "$@"; do
  case "$argument" in
    --slow|--all) which="${argument#--}" ;;
    --times) prints_times=true ;;
    *) arguments+=("$argument") ;;
  esac
done
case "$which" in
  default) targets="all" labels=(-LE '^slow$') ;;
  slow) targets="slow_tests zero_launch" labels=(-L '^slow$') ;;
  all) targets="all slow_tests" labels=() ;;
esac

ZERO_TARGET="$targets" "$zero_root/scripts/build.sh"
set_mpi_environment
export CUDA_VISIBLE_DEVICES=    # tests of CPU ranks are that on any machine; those labelled gpu see them all
export OMP_WAIT_POLICY=passive  # idle threads leave the cores to the tests beside them
export GTEST_BRIEF=1            # a suite that fails tells of its failed tests alone
results="$zero_build/test_results.xml"
code=0
ctest --test-dir "$zero_build" -j "$(nproc)" --output-on-failure --no-tests=error --output-junit "$results" \
  "${labels[@]}" "${arguments[@]}" || code=$?
if $prints_times; then
  python3 "$zero_root/scripts/test_times.py" "$zero_build" "$results"
fi
exit $code
