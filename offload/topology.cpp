#include "offload/topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <stdexcept>

#include "base/files.h"

namespace zero {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* machine) const { hwloc_topology_destroy(machine); }
};
using Machine = std::unique_ptr<hwloc_topology, DestroyTopology>;

Machine load_machine() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    throw std::runtime_error("hwloc_topology_init failed");
  Machine machine(raw);
  if (hwloc_topology_load(raw) != 0) {
    throw std::runtime_error("hwloc_topology_load failed; are /proc and /sys mounted?");
  }
  return machine;
}

int num_objects(const Machine& machine, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(machine.get(), type));
}

// Of the last level that there is.
int64_t last_cache_bytes(const Machine& machine) {
  for (const auto type : {HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    if (num_objects(machine, type) == 0) continue;
    return static_cast<int64_t>(
        hwloc_get_obj_by_type(machine.get(), type, 0)->attr->cache.size);
  }
  return 0;
}

// All CPUs along hwloc's walk through packages, NUMA nodes, caches and cores.
std::vector<int> cpus_in_machine_order(const Machine& machine) {
  std::vector<int> cpus(num_objects(machine, HWLOC_OBJ_PU));
  for (size_t i = 0; i < cpus.size(); ++i) {
    cpus[i] = hwloc_get_obj_by_type(machine.get(), HWLOC_OBJ_PU, i)->os_index;
  }
  return cpus;
}

hwloc_obj_t numa_node(const Machine& machine, int number) {
  return hwloc_get_obj_by_type(machine.get(), HWLOC_OBJ_NUMANODE, number);
}

bool is_near(hwloc_obj_t node, int cpu) {
  return hwloc_bitmap_isset(node->cpuset, cpu) != 0;
}

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

// CPUs' time; 0: this group does not limit.
double quota_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 1) {
    quota =
        static_cast<double>(read_number(group.folder + "/cpu.cfs_quota_us").value_or(0));
    period =
        static_cast<double>(read_number(group.folder + "/cpu.cfs_period_us").value_or(0));
  } else {
    std::ifstream(group.folder + "/cpu.max") >> quota >> period;  // "max 100000"
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

Topology read_topology() {
  const Machine machine = load_machine();
  Topology topology;
  topology.num_cores = num_objects(machine, HWLOC_OBJ_CORE);
  if (topology.num_cores == 0) {  // some virtual machines hide their cores
    topology.num_cores = num_objects(machine, HWLOC_OBJ_PU);
  }
  topology.num_numa_nodes = num_objects(machine, HWLOC_OBJ_NUMANODE);
  topology.cache_bytes = last_cache_bytes(machine);
  // Not hwloc's: NUMA nodes' own counts miss memory that a hypervisor added later.
  topology.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  topology.affinity = current_affinity();
  return topology;
}

std::vector<int> cpuset_of_node() {
  std::vector<int> cpus = widest_affinity();
  const std::vector<int> order = cpus_in_machine_order(load_machine());
  const auto place = [&](int cpu) { return std::find(order.begin(), order.end(), cpu); };
  std::stable_sort(cpus.begin(), cpus.end(),
                   [&](int a, int b) { return place(a) < place(b); });
  return cpus;
}

std::vector<std::vector<int>> by_numa_node(const std::vector<int>& cpus) {
  const Machine machine = load_machine();
  std::vector<std::vector<int>> nodes;
  std::vector<int> left = cpus;
  for (int n = 0; n < num_objects(machine, HWLOC_OBJ_NUMANODE); ++n) {
    const auto far = std::stable_partition(left.begin(), left.end(), [&](int cpu) {
      return is_near(numa_node(machine, n), cpu);
    });
    if (far != left.begin()) nodes.emplace_back(left.begin(), far);
    left.erase(left.begin(), far);
  }
  if (nodes.empty() || !left.empty()) return {cpus};
  return nodes;
}

int numa_node_of(const std::vector<int>& cpus) {
  const Machine machine = load_machine();
  for (int n = 0; n < num_objects(machine, HWLOC_OBJ_NUMANODE); ++n) {
    const auto is_here = [&](int cpu) { return is_near(numa_node(machine, n), cpu); };
    if (!cpus.empty() && std::ranges::all_of(cpus, is_here))
      return static_cast<int>(numa_node(machine, n)->os_index);
  }
  return -1;
}

const std::vector<int>& node_of_slot(const std::vector<std::vector<int>>& nodes, int slot,
                                     int num_slots) {
  size_t num_cpus = 0;
  for (const auto& node : nodes) num_cpus += node.size();
  size_t place = num_cpus * slot / num_slots;
  for (const auto& node : nodes) {
    if (place < node.size()) return node;
    place -= node.size();
  }
  return nodes.back();
}

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

double cpu_quota(const std::string& root) {
  double least = 0;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const double quota = quota_of(group);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

}  // namespace zero
