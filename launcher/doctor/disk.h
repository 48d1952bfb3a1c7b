#pragma once
#include <cstdint>
#include <string>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

// Of the disk below --out.
struct DiskFacts {
  std::string kind;             // of its file system: "ext4", "tmpfs"; or a number
  bool is_there = true;         // else the nearest folder above it is meant
  int64_t free = 0, total = 0;  // bytes
  std::string problem;          // why nothing can be written; empty: it can
  int64_t bytes = 0;            // that were measured
  double write_seconds = 0, read_seconds = 0;
};

// Write up to 256 MiB, and read them back; a slow disk gets less. The file has no name
// after a moment, so that nothing stays behind whatever ends this process.
DiskFacts read_disk(const std::string& out);

Findings judge(const DiskFacts& facts);

// The name of a kind of file system by the number that statfs() tells.
std::string kind_of_file_system(int64_t number);

}  // namespace zero::launcher
