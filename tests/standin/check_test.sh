#!/usr/bin/env bash
# The script that checks a GPU, on a machine whose GPU is the stand-in: each stage runs, with smaller models, and passes.
# Arguments: the program, its library, the stand-in's library, the fake driver, the stand-in's tests.
set -euo pipefail
program=$1 library=$2 standin=$3 driver=$4 standin_tests=$5
source=$(cd "$(dirname "$0")/../.." && pwd)
source "$source/tests/standin/machine.sh"
source "$source/scripts/common.sh"
set_mpi_environment

# The script is told that this folder is a bundle. Its GPU's tools are made up: nothing is measured here.
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
tool "$folder/run" "program=\$1; shift; export PATH=$folder/bin:\$PATH; exec \$program \"\$@\""
tool "$folder/bin/gpu_kernel_tests" "exec $standin_tests \"\$@\" --gtest_filter=*Kernel*"
mkdir "$folder/tools"
tool "$folder/tools/nvidia-smi" 'case "$*" in *memory.used*) echo 7 ;; *) echo "the stand-in, 580" ;; esac'
tool "$folder/tools/compute-sanitizer" 'shift 2; exec "$@"'
cp "$(dirname "$standin")/gpu_tests" "$folder/bin/"
export PATH="$folder/tools:$zero_venv/bin:$PATH"  # of that Python, which has PyTorch
check() { "$source/scripts/gpu_check.sh" "$folder/check" --bundle "$folder" --dry --minutes 60 "$@"; }

# Tests of their own are those of the GPU.
stages=$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import check; print(*check.STAGES, sep="\n")' \
  "$source/scripts/gpu" | grep -v -x -e device -e engine)
only=()
while read -r stage; do only+=(--only "$stage"); done <<<"$stages"
check "${only[@]}" >"$folder/check.md" || fail "$(cat "$folder/check.md")"
python3 - "$folder/check/report.json" "$stages" <<'EOF'
import json, sys
report = json.load(open(sys.argv[1]))
stages = report["stages"]
assert [stage["stage"] for stage in stages] == sys.argv[2].splitlines(), stages
skipped = [stage["stage"] for stage in stages if stage["status"] == "skipped"]
assert set(skipped) <= {"adapters, 8B, peft"}, skipped  # where python3 has no peft
assert all(stage["status"] == "passed" for stage in stages if stage["stage"] not in skipped), stages
told = {stage["stage"]: stage for stage in stages}
assert float(told["parity fp32"]["largest difference of losses"]) == 0, told
ways = {}
for row in report["steps"]:
    ways.setdefault(row["run"], []).append(row["offload"])
    assert row["seconds foretold"] > 0, row
    assert row["run"].startswith("14.8B") or row["of none foretold"] > 0, row
assert ways.pop("14.8B 8k") == ["most on the GPU", "half"], ways
assert ways.pop("3B 32k") == ["none", "all", "half", "all, without drafts", "all, clipped"], ways
for run in "7B 32k, moments in bf16", "7B 128k unit-major":
    assert ways.pop(run) == ["none", "all"], (run, ways)
others = [run for run in told if run[:2] in ("3B", "7B") and run in ways]
assert len(others) == 5, others
assert ways == {run: ["none", "all", "half"] for run in others}, ways  # auto is none
EOF
[ -s "$folder/check/trace_00000.json" ] || fail "no trace: $(ls "$folder/check")"

# What is wrong is told: memory beyond the plan.
tool "$folder/tools/nvidia-smi" "echo x >>$folder/asked; echo \$((\$(wc -l <$folder/asked) * 4000))"
code=0
check --only "3B 8k" >"$folder/memory.md" || code=$?
[ $code -eq 1 ] && grep -q "all: .* MiB of the GPU, planned" "$folder/memory.md" || fail "$code: $(cat "$folder/memory.md")"

code=0
LD_LIBRARY_PATH= check >"$folder/none.log" 2>&1 || code=$?
[ $code -eq 3 ] && grep -q "no GPU here" "$folder/none.log" || fail "$code: $(cat "$folder/none.log")"
