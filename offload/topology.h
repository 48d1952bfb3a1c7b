#pragma once

#include <cstdint>
#include <vector>

#include "offload/affinity.h"          // who may run where
#include "offload/available_memory.h"  // what is free now

namespace zero {

// What this machine is made of.
struct Topology {
  int num_cores = 0;  // physical cores; two hardware threads of one core count once
  int num_numa_nodes = 0;
  int64_t cache_bytes = 0;    // of one of the largest caches; 0: nobody tells
  int64_t memory_bytes = 0;   // of the whole machine, in use or not
  std::vector<int> affinity;  // CPUs on which the calling thread may run, ascending
};

// Ask the machine. Cores and NUMA nodes that a cpuset denies to this process are left
// out. Throws std::runtime_error when the machine cannot be read.
Topology read_topology();

// The CPUs of widest_affinity() in the order of the machine: neighbours in the list share
// a core, a cache, a NUMA node, so that each fair_share of it lies close.
std::vector<int> cpuset_of_node();

}  // namespace zero
