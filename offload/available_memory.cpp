#include "offload/available_memory.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/system_files.h"

namespace zero {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// How the two versions of control groups call the same three numbers.
struct Names {
  std::string limit, usage, cache;
};
const Names kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                      "total_inactive_file"};
const Names kVersion2{"/memory.max", "/memory.current", "inactive_file"};

const Names& names_of(const ControlGroup& group) {
  return group.version == 1 ? kVersion1 : kVersion2;
}

int64_t limit_of(const ControlGroup& group) {
  return read_number(group.folder + names_of(group).limit).value_or(kUnlimited);
}

// A container may not see the folders of its outer groups; what is absent does not limit.
int64_t room_in_group(const ControlGroup& group) {
  const Names& names = names_of(group);
  const auto limit = read_number(group.folder + names.limit);
  const auto usage = read_number(group.folder + names.usage);
  if (!limit || !usage) return kUnlimited;
  const int64_t cache =
      read_field(group.folder + "/memory.stat", names.cache).value_or(0);
  return std::max<int64_t>(0, *limit - *usage + std::min(cache, *usage));
}

}  // namespace

int64_t available_memory_bytes(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const auto kibibytes = read_field(path, "MemAvailable:");
  if (!kibibytes) throw std::runtime_error(path + " has no line \"MemAvailable:\"");
  int64_t room = *kibibytes * 1024;
  for (const ControlGroup& group : control_groups("memory", root))
    room = std::min(room, room_in_group(group));
  return room;
}

int64_t memory_limit_bytes(const std::string& root) {
  int64_t limit = kUnlimited;
  for (const ControlGroup& group : control_groups("memory", root))
    limit = std::min(limit, limit_of(group));
  return limit;
}

}  // namespace zero
