#!/usr/bin/env bash
# README's commands one after the other, as somebody new to the project types them, with a stopwatch, while another process
# uses one core: the last commit in a new folder, without ccache, packages and LibTorch installed.
#
#   scripts/bench/first_hour.sh [MINUTES]    MINUTES (default: 5): how long runs/mine trains before Ctrl-C
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

minutes="${1:-5}"
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || { say "MINUTES is '$minutes', a number from 1"; exit 2; }

unset ZERO_BUILD
export CCACHE_DISABLE=1
here="$(mktemp -d "${TMPDIR:-/tmp}/zero_first_hour_XXXXXX")"
(while :; do :; done) &
busy=$!
trap 'kill $busy; rm -rf "$here"' EXIT
git clone -q "$zero_root" "$here/zero"
cd "$here/zero"
mkdir my_text && cp docs/*.md checkpoint/FORMAT.md CONTRIBUTING.md my_text/

# Run a command; its exit code must be this one. Prints a row: the seconds, and the last line of its output.
row() {
  local expected="$1" begin=$SECONDS code=0
  shift
  "$@" >"$here/log" 2>&1 || code=$?
  [ "$code" = "$expected" ] || { tail -30 "$here/log"; say "'$*' ended with exit code $code, not $expected"; exit 1; }
  echo "| \`$*\` | $((SECONDS - begin)) | $(grep -v '^$' "$here/log" | tail -1 | cut -c1-100) |"
}

# Somebody presses Ctrl-C after so many seconds.
interrupted_after() { timeout --foreground --signal=INT --preserve-status "$@"; }

zero=build/bin/zero_launch
echo "| command | seconds | its last line |"
echo "|---|---|---|"
row 0 scripts/demo.sh
row 0 $zero train --config examples/configs/three_minutes.toml --data /usr/share/common-licenses --out runs/first
row 0 $zero generate runs/first --sample "This License "
row 0 $zero plan --ranks 2 --preset gpt2-10m
row 75 interrupted_after $((60 * minutes)) $zero train --ranks 2 --preset gpt2-10m --data my_text/ --out runs/mine
row 75 interrupted_after 60 $zero train --out runs/mine
row 0 $zero report runs/mine
row 2 $zero train --ranks 2 --preset gpt2-10 --data my_text/ --out runs/other
row 0 $zero verify runs/mine
