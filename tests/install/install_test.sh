#!/usr/bin/env bash
# Install into a fresh prefix, build examples/custom_model against it, train, and resume on other numbers of ranks.
# install_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
set_mpi_environment
source_folder="$1" build_folder="$2"
here="$(mktemp -d)"
trap 'rm -rf "$here"' EXIT
cd "$here"

quietly() {  # log, command...
  local log="$here/$1.log"
  shift
  "$@" >"$log" 2>&1 || { echo "FAILED: $*" >&2; cat "$log" >&2; exit 1; }
}

fail() { echo "FAILED: $*" >&2; exit 1; }

quietly install cmake --install "$build_folder" --prefix "$here/prefix"
prefix/bin/zero_launch --help >/dev/null || fail "the installed program does not start"
unset ZERO_TORCH                                         # the package must know where LibTorch is
for project in examples/custom_model tests/install/own_family; do
  name="$(basename "$project")"
  cp -r "$source_folder/$project" "$name"
  quietly "$name.configure" cmake -S "$name" -B "$name/build" -DCMAKE_PREFIX_PATH="$here/prefix" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" -G "Unix Makefiles"
  quietly "$name.build" cmake --build "$name/build" --parallel 2
  if grep -q -e "-I$source_folder" -e "$build_folder" "$name/build/CMakeFiles/$name.dir/"{flags.make,link.txt}; then
    fail "$name was built with files of the source or build tree"
  fi
done
echo "ok: installed, found and built outside the tree"

# Each public header compiles by itself, and earlier versions' paths lead to them. Those that include LibTorch, or a
# header that does, find it compiled.
compile() {  # name, word...; standard input: a source, for "-"
  local flags=own_family/build/CMakeFiles/own_family.dir/flags.make
  # shellcheck disable=SC2046
  quietly "$1.compile" g++ $(sed -n 's/^CXX_[A-Z]* = //p' "$flags") "${@:2}"
}
echo "#include <torch/torch.h>" >torch.h
compile torch -x c++-header -o torch.h.gch torch.h
names="" found="torch/torch.h"
while [ "$names" != "$found" ]; do
  names="$found"
  found="torch/torch.h$(grep -lE "#include [<\"]($names)[>\"]" prefix/include/zero/*.h | sed 's|.*/include/|\||' | tr -d '\n')"
done
alone() {  # every second header from FIRST on
  local headers=(prefix/include/zero/*.h) i name words
  for ((i = $1; i < ${#headers[@]}; i += 2)); do
    name="zero/$(basename "${headers[i]}")" words=()
    [[ "|$found|" == *"|$name|"* ]] && words=(-include torch.h)
    compile "headers.$1" -fsyntax-only -x c++ "${words[@]}" - <<<"#include <$name>"
  done
}
alone 0 &
alone 1
wait $!
sed -n '/^set(zero_moved_headers/,/)/s/^ *\([a-z_/]*\.h\) .*/#include "\1"/p' "$source_folder/cmake/install.cmake" >moved.cpp
[ "$(wc -l <moved.cpp)" -gt 20 ] || fail "found few headers that have moved"
compile moved -fsyntax-only -x c++ -include torch.h - <moved.cpp
echo "ok: public headers compile alone, and old paths lead to them"

if cmake -S custom_model -B elsewhere -DCMAKE_PREFIX_PATH="$here/prefix" -DZERO_TORCH=/no/such/torch >elsewhere.log 2>&1; then
  fail "a LibTorch folder that is not there was accepted"
fi
grep -q "no LibTorch in '/no/such/torch'" elsewhere.log || fail "$(cat elsewhere.log)"
echo "ok: ZERO_TORCH chooses LibTorch"

train() {  # ranks, run, steps: prints "step N loss X" and the evaluation
  mpirun -n "$1" custom_model/build/custom_model "$2" "$3" | grep -v ^saved
}

train 2 whole 12 >whole.txt
[ "$(grep -c ^step whole.txt)" = 12 ] || fail "the unbroken run has other steps: $(cat whole.txt)"
train 2 half 6 >half.txt
for ranks in 1 2 4; do
  cp -r half "half.$ranks"
  { grep ^step half.txt; train "$ranks" "half.$ranks" 12; } >"half.$ranks.txt"
  # The last line counts samples too: bytes of the program's own that a checkpoint keeps.
  diff whole.txt "half.$ranks.txt" >&2 || fail "6 steps on 2 ranks, then 6 on $ranks, are not 12 steps on 2"
  echo "ok: resumed on $ranks ranks, the same digits"
done
python3 - whole.txt <<'PY'
import sys
losses = [float(line.split()[3]) for line in open(sys.argv[1]) if line.startswith("step")]
assert losses[-1] < 0.8 * losses[0], losses
PY
echo "ok: the model learns"

prefix/bin/zero_launch report whole >report.txt || fail "no report of an own program: $(cat report.txt)"
grep -q "report of 12 steps" report.txt || fail "the report tells of other steps: $(cat report.txt)"
[ "$(grep -c '"type":"step"' half.4/metrics.jsonl)" = 12 ] || fail "a resumed log has other steps"
echo "ok: an own program's log is reported as a run"

for ((i = 0; i < 200; ++i)); do echo "the cat sat on the mat and the dog sat on the cat"; done >text.txt
quietly own_train mpirun -n 2 own_family/build/own_family train --model bigram --data text.txt \
  --out bigram --steps 5 --global-batch 4 --micro-batch 2
quietly own_eval mpirun -n 1 own_family/build/own_family eval --from bigram --data text.txt
quietly own_generate mpirun -n 1 own_family/build/own_family generate --from bigram --sample "the "
grep -q "bigram reads the whole text for each token" own_generate.log || fail "nothing says so: $(cat own_generate.log)"
echo "ok: the verbs train, eval and generate for an own family"

# A model that reads each token once says what it says of the whole text, read anew for each token.
own() { mpirun -n "$1" custom_model/build/language_model "${@:2}" 2>own.log || fail "$(cat own.log)"; }
own 2 train --data text.txt --out own --steps 30 --global-batch 8 --micro-batch 4 --lr 3e-3 --quiet >/dev/null
text="the cat "
for ((i = 0; i < 6; ++i)); do text="$(own 1 generate own --prompt "$text" --num-tokens 1 --greedy; echo .)" text="${text%$'\n'.}"; done
for ranks in 1 2; do
  said="$(own "$ranks" generate own --prompt "the cat " --num-tokens 6 --greedy; echo .)"
  [ "${said%$'\n'.}" = "$text" ] || fail "an own language model says '$said' on $ranks ranks, and of whole texts '$text'"
done
said="$(own 1 generate own --prompt "the cat " --num-tokens 6 --greedy --verbose)"
grep -q "keys and values 14.0 KiB" <<<"$said" || fail "2 layers of 64 numbers plan for 14 tokens: $said"
echo "ok: an own language model reads each token once"

# What the own model of images predicts is the same on any ranks, and right of pictures that it knows.
quietly own_shapes python3 "$source_folder/scripts/make_shapes.py" shapes --count 40 --size 8
quietly own_images mpirun -n 2 own_family/build/own_family train --model pixels --data shapes --out pixels \
  --steps 200 --global-batch 20 --micro-batch 10 --lr 0.03 --no-augment
for ranks in 1 2; do
  quietly own_predict mpirun -n "$ranks" own_family/build/own_family predict --from pixels --data shapes --out "$ranks.jsonl"
done
cmp 1.jsonl 2.jsonl || fail "predictions of two ranks are not those of one"
right="$(grep -cE '"image":"?[^"]*(circle|cross|square|triangle)/[^"]*".*"class":"\1"' 1.jsonl || true)"
[ "$right" = 40 ] || fail "$right of 40 pictures are told: $(head -3 1.jsonl)"
echo "ok: the verb predict for an own family of images"
