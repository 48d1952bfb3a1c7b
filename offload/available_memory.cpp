#include "offload/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace zero {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Where the two versions of control groups keep the same three numbers.
struct Layout {
  std::string mount, limit, usage, cache;
};
const Layout kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                       "memory.usage_in_bytes", "total_inactive_file"};
const Layout kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// The first number of a file; none when the file is absent or says "max".
std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// The number after `key` in a file of lines "key number ...".
std::optional<int64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return std::nullopt;
}

int64_t room_in_group(const std::string& folder, const Layout& layout) {
  const auto limit = read_number(folder + "/" + layout.limit);
  const auto usage = read_number(folder + "/" + layout.usage);
  if (!limit || !usage) return kUnlimited;
  const int64_t cache = read_field(folder + "/memory.stat", layout.cache).value_or(0);
  return std::max<int64_t>(0, *limit - *usage + std::min(cache, *usage));
}

// A container may not see the folders of its outer groups; what is absent does not limit.
int64_t room_in_group_and_above(const std::string& root, std::string group,
                                const Layout& layout) {
  int64_t room = kUnlimited;
  while (true) {
    if (group == "/") group.clear();
    room = std::min(room, room_in_group(root + layout.mount + group, layout));
    if (group.empty()) return room;
    group.resize(group.rfind('/'));
  }
}

bool contains(const std::string& comma_separated, const std::string& wanted) {
  std::istringstream names(comma_separated);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

// Lines of /proc/self/cgroup: "0::/path" in version 2, "4:cpu,memory:/path" in 1.
int64_t room_in_all_groups(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  int64_t room = kUnlimited;
  std::string number, controllers, group;
  while (std::getline(file, number, ':') && std::getline(file, controllers, ':') &&
         std::getline(file, group)) {
    if (!group.starts_with('/')) continue;
    if (controllers.empty()) {
      room = std::min(room, room_in_group_and_above(root, group, kVersion2));
    } else if (contains(controllers, "memory")) {
      room = std::min(room, room_in_group_and_above(root, group, kVersion1));
    }
  }
  return room;
}

}  // namespace

int64_t available_memory_bytes(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const auto kibibytes = read_field(path, "MemAvailable:");
  if (!kibibytes) throw std::runtime_error(path + " has no line \"MemAvailable:\"");
  return std::min(*kibibytes * 1024, room_in_all_groups(root));
}

}  // namespace zero
