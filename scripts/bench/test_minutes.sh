#!/usr/bin/env bash
# How long this project's checks take, from nothing: the last commit in a new folder, without ccache, packages and LibTorch
# installed. Run it where nothing else runs.
#
#   scripts/bench/test_minutes.sh [RUNS [CHECK...]]    medians of RUNS (default: 3); CHECK: default, slow, demo (default: all
#                                                      three, one after the other in one folder, as .ci/run has them)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

runs="${1:-3}"
checks=("${@:2}")
[ ${#checks[@]} -gt 0 ] || checks=(default slow demo)
for check in "${checks[@]}"; do
  [[ "$check" =~ ^(default|slow|demo)$ ]] || { say "'$check' is no check; default, slow, demo"; exit 2; }
done
[[ "$runs" =~ ^[1-9][0-9]*$ ]] || { say "RUNS is '$runs', a number from 1"; exit 2; }

command_of() {
  case "$1" in
    default) echo scripts/test.sh ;;
    slow) echo scripts/test.sh --slow ;;
    demo) echo scripts/demo.sh ;;
  esac
}

unset ZERO_BUILD
export CCACHE_DISABLE=1
here="$(mktemp -d "${TMPDIR:-/tmp}/zero_minutes_XXXXXX")"
trap 'rm -rf "$here"' EXIT
for ((run = 1; run <= runs; ++run)); do
  git clone -q "$zero_root" "$here/$run"
  for check in "${checks[@]}"; do
    begin=$SECONDS
    # shellcheck disable=SC2046
    (cd "$here/$run" && $(command_of "$check")) >"$here/log" 2>&1 || { tail -50 "$here/log"; exit 1; }
    echo "$check $((SECONDS - begin))" >>"$here/seconds"
    say "run $run: $check took $((SECONDS - begin)) s"
  done
  rm -rf "${here:?}/$run"
done
for check in "${checks[@]}"; do
  grep "^$check " "$here/seconds" | sort -n -k2 | awk '{s[NR] = $2} END {m = s[int((NR + 1) / 2)]; printf "%-8s %d min %02d s (median of %d)\n", $1, m / 60, m % 60, NR}'
done
