#include "checkpoint/disk_roads.h"

#include <sys/stat.h>

#include <map>

namespace zero::checkpoint {

DiskRoads& DiskRoads::of(const File& file) {
  static std::mutex mutex;
  static std::map<dev_t, DiskRoads> all;
  struct stat status {};
  ::fstat(file.descriptor(), &status);
  const std::lock_guard lock(mutex);
  return all[status.st_dev];
}

// Equally fast roads are none: the next reader finds the bytes in the cache.
Road DiskRoads::next(int64_t bytes) {
  constexpr double kClearly = 0.95;
  const std::lock_guard lock(mutex_);
  if (tried_bytes_ < 2 * kTrialBytes) {
    const bool is_first = tried_bytes_ < kTrialBytes;
    tried_bytes_ += bytes;
    return is_first ? Road::kDirect : Road::kCached;
  }
  const Taken& direct = taken(Road::kDirect);
  const Taken& cached = taken(Road::kCached);
  const bool is_faster = direct.seconds * static_cast<double>(cached.bytes) <
                         kClearly * cached.seconds * static_cast<double>(direct.bytes);
  return is_faster ? Road::kDirect : Road::kCached;
}

void DiskRoads::tell(Road road, int64_t bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  taken(road).bytes += bytes;
  taken(road).seconds += seconds;
}

}  // namespace zero::checkpoint
