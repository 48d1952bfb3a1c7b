#!/usr/bin/env bash
# What a unit cannot take or return does not compile, with a sentence that tells why. refused_units_test.sh BUILD_FOLDER
set -euo pipefail
output="$(cmake --build "$1" --target refused_units 2>&1)" && { echo "FAILED: refused_units.cpp compiles"; exit 1; }
says() {
  [[ "$output" == *"$1"* ]] || { echo "$output"; echo "FAILED: the compiler does not say '$1'"; exit 1; }
}
says "cannot see the tensors in what forward returns"
says "cannot see the tensors in this type"
says "Secret"
says "forward must take its arguments by value or by const reference"
