#!/usr/bin/env bash
# Measure the engine against its limit and its peers, in turn, and print medians and ratios.
#
#   scripts/bench.sh            all; about ten minutes on two cores
#   scripts/bench.sh overhead   one rank against the plain LibTorch loop, alternating in one process
#   scripts/bench.sh ranks      two ranks against two processes that do not talk, FSDP2 and DDP
#
# ZERO_BENCH_ROUNDS (5) and ZERO_BENCH_STEPS (6) set the length.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rounds="${ZERO_BENCH_ROUNDS:-5}"
steps="${ZERO_BENCH_STEPS:-6}"
"$zero_root/scripts/build.sh" >&2
set_mpi_environment
results="$(mktemp)"
trap 'rm -f "$results"' EXIT
program="$zero_build/bin/bench_step"

overhead() { taskset -c 0 "$program" both fp32 "$rounds" "$steps" >>"$results"; }

independent() {  # dtype: two pinned processes, each with a whole model; their tokens add up
  local one two
  one="$(mktemp)" two="$(mktemp)"
  taskset -c 0 "$program" plain "$1" 1 "$steps" >"$one" &
  taskset -c 1 "$program" plain "$1" 1 "$steps" >"$two"
  wait
  python3 - "$one" "$two" >>"$results" <<'PY'
import json, sys
a, b = (json.loads(open(path).read()) for path in sys.argv[1:])
a["what"], a["ranks"], a["tokens_per_second"] = "independent", 2, a["tokens_per_second"] + b["tokens_per_second"]
print(json.dumps(a))
PY
  rm -f "$one" "$two"
}

peer() {  # fsdp2|ddp dtype
  OMP_NUM_THREADS=1 "$zero_venv/bin/python" -W ignore -m torch.distributed.run --standalone --nproc-per-node 2 \
    "$zero_root/scripts/bench/peers.py" "$1" "$2" 1 "$steps" >>"$results" 2>/dev/null
}

ranks() {
  for ((round = 0; round < rounds; ++round)); do
    for dtype in fp32 bf16; do
      independent "$dtype"
      mpirun -n 2 "$program" engine "$dtype" 1 "$steps" >>"$results"
      peer fsdp2 "$dtype"
      peer ddp "$dtype"
    done
  done
}

case "${1:-all}" in
  all) overhead; ranks ;;
  overhead) overhead ;;
  ranks) ranks ;;
  *) echo "usage: scripts/bench.sh [all|overhead|ranks]" >&2; exit 2 ;;
esac

python3 - "$results" <<'PY'
import collections, json, statistics, sys
rows = collections.defaultdict(list)
for line in open(sys.argv[1]):
    row = json.loads(line)
    rows[row["ranks"], row["dtype"], row["what"]].append(row)
limit = {}
for (ranks, dtype, what), group in rows.items():
    if what in ("plain", "independent"):
        limit[ranks, dtype] = [r["tokens_per_second"] for r in group]
print(f"{'ranks':>5} {'type':5} {'what':12} {'tokens/s':>9} {'of limit':>9} {'peak MiB':>9}")
for (ranks, dtype, what), group in sorted(rows.items()):
    speeds = [r["tokens_per_second"] for r in group]
    pairs = [s / l for s, l in zip(speeds, limit[ranks, dtype])]
    print(f"{ranks:5} {dtype:5} {what:12} {statistics.median(speeds):9.0f} {statistics.median(pairs):9.3f} "
          f"{max(r['peak_mib'] for r in group):9.0f}")
PY
