#!/usr/bin/env bash
# Let libFuzzer look for bytes that break a target of tests/fuzz. Needs clang++-16 (or set CXX), builds into build-fuzz/.
#
#   scripts/fuzz.sh TARGET [SECONDS]     # 600; stops at the first finding, which it leaves in build-fuzz/findings/
#   scripts/fuzz.sh TARGET merge         # add to the corpus what reaches new code, as few files as can be
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

target="${1:?which target? One of tests/fuzz/*_target.cpp}" seconds="${2:-600}"
build="$zero_root/build-fuzz" checked_in="$zero_root/tests/fuzz/corpus/$target"
found="$build/corpus/$target" findings="$build/findings/$target-"
mkdir -p "$found" "$build/findings"

cmake -S "$zero_root" -B "$build" -G Ninja -DZERO_FUZZ=ON -DZERO_WERROR=OFF -DZERO_TORCH="$(zero_torch)" \
  -DZERO_SANITIZE=address,undefined,float-cast-overflow -DCMAKE_CXX_COMPILER="${CXX:-clang++-16}" \
  -DCMAKE_C_COMPILER="${CC:-clang-16}" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 3; }
cmake --build "$build" --target "fuzz_$target"

# Files are written with each input: into memory where the system has a folder for that.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
fuzz=("$build/tests/fuzz_$target" -max_len=65536 -rss_limit_mb=1024 -timeout=10 -artifact_prefix="$findings")

if [ "$seconds" = merge ]; then
  "${fuzz[@]}" -use_counters=0 -set_cover_merge=1 "$checked_in" "$found"
else
  "${fuzz[@]}" -max_total_time="$seconds" -print_final_stats=1 "$found" "$checked_in"
fi
