#!/usr/bin/env bash
# The program on a machine with a GPU, which is the stand-in: what it trains, saves, resumes, evaluates and generates is
# what it does without. Arguments: the program, its library, the stand-in's library, the fake driver, the fake profiler.
set -euo pipefail
program=$1 library=$2 standin=$3 driver=$4 profiler=$5
source "$(dirname "$0")/machine.sh"
launch=$folder/bin/zero_launch

shape=(--layers 2 --dim 64 --heads 2 --seq-len 128 --micro-batch 2 --schedule constant --accumulate model --global-batch 4)

# train RUN DEVICE STEPS [more flags]: every loss and norm, of all its steps so far.
train() {
  "$launch" train --device "$2" --data "$folder/text" --out "$folder/$1" --steps "$3" "${@:4}" "${shape[@]}" \
    --eval-data "$folder/text" --eval-every 3 --threads 1 >"$folder/$1.log"
  python3 - "$folder/$1/metrics.jsonl" <<'EOF'
import json, sys
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] in ("step", "eval"):
        print(record["type"], record["step"], record["loss"], record.get("grad_norm"))
EOF
}

for i in $(seq 400); do echo "the $i-th line of a text that is no other"; done >"$folder/text"
train cpu cpu 6 >"$folder/cpu.losses"
train gpu cuda 3 >/dev/null
train gpu auto 6 >"$folder/gpu.losses"
[ "$(wc -l <"$folder/cpu.losses")" -ge 8 ] || fail "too few records: $(cat "$folder/cpu.losses")"
diff "$folder/cpu.losses" "$folder/gpu.losses" || fail "the GPU trains otherwise"
grep -q "device   a GPU" "$folder/gpu.log" || fail "the banner says: $(grep device "$folder/gpu.log")"

# Rows that hold several conversations.
python3 - "$folder" "$(dirname "$0")/../../examples/chat" <<'EOF'
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from make_chats import make_tokenizer
folder = Path(sys.argv[1])
make_tokenizer(folder / "tok")
(folder / "pairs.jsonl").write_text("".join('{"prompt": "%s: ", "completion": "%s"}\n' % (n, "so " * (n % 9 + 1)) for n in range(40)))
EOF
packed=(--layers 2 --dim 64 --heads 2 --seq-len 64 --micro-batch 2 --global-batch 4 --schedule constant --threads 1 --steps 4)
for way in "cpu" "cuda --offload none" "cuda --offload all" "cuda --accumulate unit" "cuda --offload all --offload-activations"; do
  rm -rf "$folder/packed"
  # shellcheck disable=SC2086
  "$launch" train --device $way --tokenizer "$folder/tok" --data "$folder/pairs.jsonl" --out "$folder/packed" "${packed[@]}" \
    --model llama >"$folder/packed.log" || fail "packed, $way: $(tail -3 "$folder/packed.log")"
  grep -o '"loss":[0-9.]*' "$folder/packed/metrics.jsonl" | cut -c1-13 >"$folder/packed.losses"
  [ "$way" != cpu ] || cp "$folder/packed.losses" "$folder/packed_cpu.losses"
  [ "$(wc -l <"$folder/packed.losses")" -ge 4 ] || fail "packed, $way: too few losses"
  diff "$folder/packed_cpu.losses" "$folder/packed.losses" || fail "packed, $way: the GPU trains otherwise"
done

# Wherever shards lie it trains the same, and says so; a run goes on with them elsewhere.
grep -q "which keeps weights and states (offload none)" "$folder/gpu.log" || fail "$(grep device "$folder/gpu.log")"
for way in none optimizer all; do
  train "keep_$way" cuda 3 --offload $way >/dev/null
  grep -q "(offload $way)" "$folder/keep_$way.log" || fail "$way: $(grep device "$folder/keep_$way.log")"
  train "keep_$way" cuda 6 --offload optimizer --device-state-fraction 0.5 >"$folder/keep_$way.losses"
  grep -q "keeps 50% of the states" "$folder/keep_$way.log" || fail "$way: $(grep device "$folder/keep_$way.log")"
  diff "$folder/cpu.losses" "$folder/keep_$way.losses" || fail "$way: the GPU trains otherwise"
done
# Updates begin in backward where the host has room, and change nothing.
drafts='updates begin in backward, with .* for their drafts (speculate '
train drafts cuda 6 --offload all >"$folder/drafts.losses"
diff "$folder/cpu.losses" "$folder/drafts.losses" || fail "the GPU trains otherwise with drafts"
grep -q "$drafts" "$folder/drafts.log" || fail "$(grep device "$folder/drafts.log")"
grep -q '| drafts [0-9]*/3 |' "$folder/drafts.log" || fail "$(cat "$folder/drafts.log")"
train plain cuda 3 --offload all --speculate off >/dev/null
! grep -q drafts "$folder/plain.log" || fail "$(grep drafts "$folder/plain.log")"
train halves cuda 6 --offload all --dtype bf16 --master split >"$folder/halves.losses"
grep -q '| drafts [0-9]*/3 |' "$folder/halves.log" || fail "drafts of masters in halves: $(cat "$folder/halves.log")"
train no_halves cuda 6 --offload all --dtype bf16 --master split --speculate off >"$folder/no_halves.losses"
diff "$folder/halves.losses" "$folder/no_halves.losses" || fail "drafts of masters in halves train otherwise"
# Layers that join in the middle have no drafts before.
later=(--unfreeze-at '2:*.h.0.*' --unfreeze-at '4:*wte*' --clip 1000)
train later_cpu cpu 6 "${later[@]}" >"$folder/later_cpu.losses"
for way in none optimizer all; do
  train "later_$way" cuda 6 --offload $way "${later[@]}" >"$folder/later.losses"
  diff "$folder/later_cpu.losses" "$folder/later.losses" || fail "$way: the GPU trains layers that join otherwise"
done
grep -q '| drafts 2/2 |' "$folder/later_all.log" || fail "drafts of layers that join: $(grep drafts "$folder/later_all.log")"
# moved RUN [flags]: what its steps moved is what the plan says.
moved() {
  "$launch" plan --json --device cuda "${@:2}" "${shape[@]}" >"$folder/plan.json"
  python3 - "$folder/plan.json" "$folder/$1/metrics.jsonl" <<'EOF'
import json, sys
planned = {"bytes_" + key: value for key, value in json.load(open(sys.argv[1]))["step_bytes_per_rank"].items()}
steps = [record for record in map(json.loads, open(sys.argv[2])) if record["type"] == "step"]
assert len(steps) > 3 and planned["bytes_d2h"] > 0, planned
# The first one of a process looks at weights besides; one behind an evaluation finds some on the GPU.
for step in (step for step in steps if step["step"] not in (1, 4)):
    assert {key: step[key] for key in planned} == planned, (step, planned)
EOF
}
for way in none optimizer all; do
  train "moves_$way" cuda 6 --offload $way >"$folder/losses"
  moved "moves_$way" --offload $way || fail "a step moves other bytes than planned: $way"
done
train half cuda 6 --offload all --device-state-fraction 0.5 >"$folder/losses"
moved half --offload all --device-state-fraction 0.5 || fail "a step moves other bytes than planned"
grep -q "^bound by: .*(gpu .*waiting" "$folder/gpu.log" || fail "what binds it is not told: $(cat "$folder/gpu.log")"
grep -q "^step .* ms (gpu [0-9]*%.*) | " "$folder/gpu.log" || fail "a step's shares: $(grep step "$folder/gpu.log")"

# A profiler sees each thread's ranges with the units' names, a trace the GPU's streams.
NVTX_INJECTION64_PATH=$profiler FAKE_PROFILER_LOG=$folder/ranges train profiled cuda 3 --offload all --trace steps=2:2 >/dev/null
python3 - "$folder/ranges" "$folder/profiled/trace_00000.json" <<'EOF'
import json, sys
begun, names = {}, set()
for line in open(sys.argv[1]):
    thread, sign, *name = line.split(maxsplit=2)
    if sign == "+":
        begun.setdefault(thread, []).append(name)
        names.update(text.strip() for text in name)
    else:
        begun[thread].pop()
assert not any(begun.values()), begun
for name in ("forward transformer.h.1", "recompute transformer.h.0", "backward transformer.h.1", "step", "step 2",
             "update transformer.h.1", "norm transformer.h.0"):
    assert name in names, (name, names)
events = json.load(open(sys.argv[2]))
lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
seen = {(lanes[event["tid"]], event["name"]) for event in events if event["ph"] == "X"}
for span in (("GPU compute", "backward transformer.h.1"), ("GPU communication", "gather transformer.h.0"),
             ("GPU copy out", "reduce transformer.h.1"), ("training", "forward transformer.h.1")):
    assert span in seen, (span, seen)
EOF
NVTX_INJECTION64_PATH=$profiler FAKE_PROFILER_LOG=$folder/none.ranges train unseen cpu 1 >/dev/null
[ ! -e "$folder/none.ranges" ] || fail "ranges without a GPU: $(cat "$folder/none.ranges")"

# A smaller GPU trains the same, one that is too small is refused before anything is taken.
train smaller cuda 6 --device-memory 900MiB >"$folder/smaller.losses"
diff "$folder/cpu.losses" "$folder/smaller.losses" || fail "a smaller GPU trains otherwise"
code=0
"$launch" train --device cuda --device-memory 100KiB --data "$folder/text" --out "$folder/none" --steps 1 \
  >"$folder/small.log" 2>&1 || code=$?
[ $code -eq 3 ] && grep -q "a GPU's memory does not suffice" "$folder/small.log" || fail "$code: $(cat "$folder/small.log")"

# What copies take, on every GPU; without one it is said so.
STANDIN_GPUS=2 "$launch" bench transfer --size 1MiB --rounds 2 --json >"$folder/rows.json"
python3 - "$folder/rows.json" <<'EOF'
import json, sys
rows = json.load(open(sys.argv[1]))
names = ["memcpy", "host to GPU", "GPU to host", "both at once"]
assert [(row["gpu"], row["name"]) for row in rows] == [(gpu, name) for gpu in (0, 1) for name in names], rows
assert [row["bytes"] for row in rows[:4]] == [1 << 20] * 3 + [2 << 20], rows
assert all(row["gb_per_s"] > 0 and "the stand-in" in row["what"] for row in rows), rows
EOF
code=0
LD_LIBRARY_PATH= "$launch" bench transfer >"$folder/none.log" 2>&1 || code=$?
[ $code -eq 3 ] && grep -q "no GPU was found" "$folder/none.log" || fail "$code: $(cat "$folder/none.log")"

# Inputs of units in the host's memory, 64 KiB each: as planned, and no other losses.
train offloads cuda 6 --offload-activations >"$folder/offloads.losses"
diff "$folder/cpu.losses" "$folder/offloads.losses" || fail "offloaded activations train otherwise"
grep -q "offloaded inputs 128.0 KiB planned, 128.0 KiB allocated" "$folder/offloads.log" ||
  fail "the run says: $(grep "memory of a rank" "$folder/offloads.log")"
train some cuda 6 --offload-activations --recompute every:2 >"$folder/some.losses"
diff "$folder/cpu.losses" "$folder/some.losses" || fail "some recomputed units train otherwise"
grep -q "offloaded inputs 64.0 KiB planned, 64.0 KiB allocated" "$folder/some.log" ||
  fail "the run says: $(grep "memory of a rank" "$folder/some.log")"
"$launch" eval --device cpu --from "$folder/offloads" --data "$folder/text" >/dev/null  # where they stay
refused() {  # text, then the command
  local code=0
  "${@:2}" >"$folder/refused.log" 2>&1 || code=$?
  [ $code -eq 2 ] || fail "exit code $code: $(cat "$folder/refused.log")"
  grep -q "$1" "$folder/refused.log" || fail "it says: $(cat "$folder/refused.log")"
  [ ! -e "$folder/none" ] || fail "a folder was made"
}
refused "device is cpu" "$launch" train --device cpu --offload-activations --data "$folder/text" --out "$folder/none"
refused "offload_activations is for a GPU" env LD_LIBRARY_PATH= "$launch" train --offload-activations \
  --data "$folder/text" --out "$folder/none"

for device in cpu cuda; do
  "$launch" generate --device $device --from "$folder/gpu" --sample "the " --sample-tokens 20 >"$folder/text.$device"
  "$launch" eval --device $device --from "$folder/gpu" --data "$folder/text" >"$folder/eval.$device"
done
diff "$folder/text.cpu" "$folder/text.cuda" || fail "the GPU writes otherwise"
diff <(grep -o "loss [0-9.]*" "$folder/eval.cpu") <(grep -o "loss [0-9.]*" "$folder/eval.cuda") ||
  fail "the GPU is judged otherwise"

# Two ranks have one GPU: refused, unless it is asked for.
if "$launch" train --ranks 2 --data "$folder/text" --out "$folder/two" --steps 1 --layers 1 --dim 64 --heads 2 \
  >"$folder/two.log" 2>&1; then
  fail "two ranks shared a GPU"
fi
grep -q "ranks 0 and 1 would share one GPU" "$folder/two.log" || fail "two ranks were told: $(cat "$folder/two.log")"
train two_cpu cpu 4 --ranks 2 >"$folder/two_cpu.losses"
train two_gpu cuda 4 --ranks 2 --share-gpu >"$folder/two_gpu.losses"
diff "$folder/two_cpu.losses" "$folder/two_gpu.losses" || fail "two ranks on a GPU train otherwise"
moved two_gpu --ranks 2 --share-gpu || fail "two ranks on a GPU move other bytes than planned"

# Four ranks share two GPUs, in two groups.
shape[-1]=8  # samples of a step
train four_cpu cpu 4 --ranks 4 --shard-over 2 >"$folder/four_cpu.losses"
STANDIN_GPUS=2 train four_gpu cuda 4 --ranks 4 --shard-over 2 --share-gpu >"$folder/four_gpu.losses"
diff "$folder/four_cpu.losses" "$folder/four_gpu.losses" || fail "four ranks on two GPUs train otherwise"
STANDIN_GPUS=2 moved four_gpu --ranks 4 --shard-over 2 --share-gpu || fail "four ranks on two GPUs move other bytes than planned"
