#!/usr/bin/env bash
# What a program says that looks for a GPU, on machines that are made up: with and without a driver, with and without
# the library for GPUs. Arguments: the program, the fake driver, the stand-in's library, the real one if it was built.
set -euo pipefail
program=$1 driver=$2 standin=$3 real=${4:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/driver" "$folder/standin" "$folder/real"
cp "$program" "$folder/search"
cp "$driver" "$folder/driver/libcuda.so.1"
cp "$standin" "$folder/standin/libzero_cuda.so"
[ -z "$real" ] || cp "$real" "$folder/real/libzero_cuda.so"
search=$folder/search
failed=0

# expect NAME CODE TEXT [VARIABLE=VALUE ...]
expect() {
  local name=$1 code=$2 text=$3 said="" got=0
  shift 3
  said=$(env "$@" "$search" 2>&1) || got=$?
  if [ "$got" != "$code" ] || [[ $said != *"$text"* ]]; then
    printf '%s: expected code %s and "%s", got %s and:\n%s\n' "$name" "$code" "$text" "$got" "$said"
    failed=1
  fi
}

with_driver="LD_LIBRARY_PATH=$folder/driver"
if [ ! -e /dev/nvidia0 ]; then
  expect "no driver" 0 "0 unset"
fi
expect "a driver without a GPU" 0 "0 32" "$with_driver" FAKE_CUINIT=100
expect "no library" 3 "libzero_cuda.so" "$with_driver"
expect "no library, the cure" 3 "--device cpu" "$with_driver"
if [ -n "$real" ]; then
  expect "a driver that CUDA cannot use" 3 "--device cpu" "$with_driver:$folder/real"
fi
expect "a GPU" 0 "1 32" "$with_driver:$folder/standin"
cp "$standin" "$folder/libzero_cuda.so"
expect "a library beside the program" 0 "1 " "$with_driver"
rm "$folder/libzero_cuda.so"
mkdir "$folder/bin" "$folder/lib"
mv "$search" "$folder/bin/"
search=$folder/bin/search
cp "$standin" "$folder/lib/libzero_cuda.so"
expect "a library in lib/ beside bin/" 0 "1 " "$with_driver"
exit $failed
