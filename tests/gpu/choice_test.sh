#!/usr/bin/env bash
# What cmake/cuda.cmake makes of ZERO_CUDA where a compiler is there, is another, or is not. Arguments: this project's
# folder, LibTorch's.
set -euo pipefail
root=$1 torch=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(choice NONE)
include($root/cmake/cuda.cmake)
message(STATUS "library: \${ZERO_HAS_CUDA}, headers: \${ZERO_HAS_CUDA_HEADERS}")
CMAKE
compiler() {  # compiler NAME RELEASE: one that says what it is
  printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.1"\n' "$2" "$2" >"$folder/$1"
  chmod +x "$folder/$1"
}
compiler new 13.0
compiler old 12.9
compiler newer 13.1
failed=0

# expect NAME RESULT TEXT [OPTION ...]: RESULT is 0, or 1 for a configuration that fails
expect() {
  local name=$1 result=$2 text=$3 said="" got=0
  shift 3
  said=$(cmake -S "$folder" -B "$folder/build" --fresh -DZERO_TORCH="$torch" "$@" 2>&1) || got=1
  said=$(echo $said)  # lines are broken anywhere
  if [ "$got" != "$result" ] || [[ $said != *"$text"* ]]; then
    printf '%s: expected %s and "%s", got %s and:\n%s\n' "$name" "$result" "$text" "$got" "$said"
    failed=1
  fi
}

expect "a compiler" 0 "library: ON, headers: ON" -DZERO_CUDA=AUTO -DZERO_NVCC="$folder/new"
expect "a compiler, asked for" 0 "library: ON, headers: ON" -DZERO_CUDA=ON -DZERO_NVCC="$folder/new"
expect "a compiler, unwanted" 0 "library: OFF, headers: OFF" -DZERO_CUDA=OFF -DZERO_NVCC="$folder/new"
expect "an old compiler" 0 "library: OFF, headers: ON" -DZERO_CUDA=AUTO -DZERO_NVCC="$folder/old"
expect "one newer than the runtime" 0 "library: OFF, headers: ON" -DZERO_CUDA=AUTO -DZERO_NVCC="$folder/newer"
expect "an old compiler, said" 0 "left out: CUDA 13 lacks the compiler" -DZERO_CUDA=AUTO -DZERO_NVCC="$folder/old"
expect "no compiler, the cure" 1 "run scripts/setup.sh" -DZERO_CUDA=ON -DZERO_NVCC="$folder/none"
exit $failed
