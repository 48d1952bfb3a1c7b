#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/affinity.h"  // who may run where

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

// `cpus` by the NUMA node that they are near to, nodes in the order of the machine. One
// list of all where the machine tells of no nodes.
std::vector<std::vector<int>> by_numa_node(const std::vector<int>& cpus);

// The number by which the system knows the NUMA node that all `cpus` are near to; -1:
// they are near to several, or nobody tells.
int numa_node_of(const std::vector<int>& cpus);

// Where the thread in slot `slot` of `num_slots` belongs: on the CPUs of that node where
// its share lies, when all CPUs of `nodes` are dealt out in order.
const std::vector<int>& node_of_slot(const std::vector<std::vector<int>>& nodes, int slot,
                                     int num_slots);

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

// The least CPUs' time that they allow, in CPUs; 0: no limit.
double cpu_quota(const std::string& root = "");

}  // namespace zero
