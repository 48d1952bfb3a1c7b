#!/usr/bin/env bash
# Random models and schedules against plain LibTorch, on each number of ranks and in all groups of them: prints the table
# of docs/units.md. Ends with 1 if a case fails.
#
#   scripts/property_campaign.sh [FIRST:END]     of these seeds; without them 1000:1100
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seeds="${1:-1000:1100}"
program="$zero_build/tests/property_tests"
[ -x "$program" ] || { say "$program is not there: ZERO_TARGET=property_tests scripts/build.sh"; exit 2; }

result=0
echo "| ranks | in groups of | seeds | void | failed |"
echo "|---|---|---|---|---|"
for ranks in 1 2 3 4 6 8; do
  for ((group = 1; group <= ranks; ++group)); do
    ((ranks % group == 0)) || continue
    told="$("$program" --seeds "$seeds" --ranks "$ranks" --group "$group")" || result=1
    read -r cases failed void < <(sed -n 's/^\([0-9]*\) cases: \([0-9]*\) failed, \([0-9]*\) void$/\1 \2 \3/p' <<<"$told")
    echo "| $ranks | $group | $cases | $void | $failed |"
    [ "$failed" = 0 ] || echo "$told" >&2
  done
done
exit "$result"
