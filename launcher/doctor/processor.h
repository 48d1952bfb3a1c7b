#pragma once
#include <string>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

struct ProcessorFacts {
  int num_present = 0;     // CPUs of the machine, two hardware threads count twice
  int num_allowed = 0;     // of them, those that a container or batch system allows
  int num_current = 0;     // of those, where this process may run now
  int num_cores = 0;       // physical, among those that are allowed
  int num_numa_nodes = 0;  // 0: nobody tells
  double quota = 0;        // CPUs whose time control groups allow; 0: they do not limit
  std::string isa;         // of the loops over all parameters: "avx512"
  bool has_bf16 = true;    // has_bf16_instructions()
};

// Throws std::runtime_error when the machine cannot be read.
ProcessorFacts read_processor();

Findings judge(const ProcessorFacts& facts);

// Does this processor multiply bf16 by itself? Where it does not, LibTorch takes several
// times as long as in fp32. Of those that cannot be asked it is believed.
bool has_bf16_instructions();

// The least CPUs' time that the control groups of this process allow; 0: no limit. `root`
// is where /proc and /sys are looked for.
double cpu_quota(const std::string& root = "");

}  // namespace zero::launcher
