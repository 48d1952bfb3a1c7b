#!/usr/bin/env bash
# What the engine promises the program that uses it. contract_test.sh GUEST_PROGRAM
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
set_mpi_environment
guest="$1"
output="$(mktemp)"
trap 'rm -f "$output"' EXIT

fail() {
  echo "FAILED: $*; its output:" >&2
  cat "$output" >&2
  exit 1
}

succeeds() {  # what, command...
  local what="$1" rc=0
  shift
  timeout -k 5 120 "$@" >"$output" 2>&1 || rc=$?
  [ $rc = 0 ] || fail "$what: exit code $rc"
  echo "ok: $what"
}

ends_all_ranks() {  # what, text, command...: not 0, and not by the limit, which is there for a hang only
  local what="$1" text="$2" rc=0
  shift 2
  timeout -k 5 120 "$@" >"$output" 2>&1 || rc=$?
  [ $rc != 0 ] || fail "$what: exit code 0"
  [ $rc != 124 ] && [ $rc != 137 ] || fail "$what: still running after two minutes"
  grep -q "$text" "$output" || fail "$what: \"$text\" was not printed"
  echo "ok: $what"
}

succeeds "alone: handlers, CPUs, no MPI, errors can be caught" "$guest" side_effects
succeeds "two ranks: handlers, CPUs, errors can be caught" mpirun -n 2 "$guest" side_effects
succeeds "MPI of the caller stays the caller's" mpirun -n 2 "$guest" own_mpi
succeeds "groups, first values, parameters, own exchanges" mpirun -n 2 "$guest" parameters
ends_all_ranks "an exception that nobody catches" "rank 1 had enough" mpirun -n 2 "$guest" throw
ends_all_ranks "an exception that main() catches" "rank 1 had enough" mpirun -n 2 "$guest" catch
