#pragma once

#include <cstdint>
#include <string>

namespace zero {

// Bytes of host memory that can still be taken before something is killed or swapped.
//
// The least of the kernel's MemAvailable and, for the process' control group (version 1
// or 2) and every group above it, limit minus usage; file cache that the kernel would
// give back counts as free. Never negative. `root` is where /proc and /sys are looked
// for. Throws std::runtime_error when MemAvailable cannot be read.
int64_t available_memory_bytes(const std::string& root = "");

// The least that those control groups allow, whatever is in use; INT64_MAX, or more than
// the machine has: they do not limit.
int64_t memory_limit_bytes(const std::string& root = "");

}  // namespace zero
