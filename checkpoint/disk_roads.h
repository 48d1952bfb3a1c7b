#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "checkpoint/file.h"

namespace zero::checkpoint {

// How bytes come from a disk.
enum class Road { kDirect, kCached };

// Which road from a disk is faster: straight to where the bytes are wanted, or through
// the system's cache, which keeps them for the next reader. Found out while reading: the
// first kTrialBytes go the one way, as many the other. Thread-safe.
class DiskRoads {
 public:
  static constexpr int64_t kTrialBytes = int64_t{16} << 20;

  // Those of the disk that holds the file: one object of the process for each disk.
  static DiskRoads& of(const File& file);

  // The road for the next so many bytes.
  Road next(int64_t bytes);
  // How long so many bytes took.
  void tell(Road road, int64_t bytes, double seconds);

 private:
  struct Taken {
    int64_t bytes = 0;
    double seconds = 0;
  };
  Taken& taken(Road road) { return taken_[static_cast<size_t>(road)]; }

  std::mutex mutex_;
  int64_t tried_bytes_ = 0;
  std::array<Taken, 2> taken_;
};

}  // namespace zero::checkpoint
