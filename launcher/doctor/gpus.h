#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

struct GpuFacts {
  struct Gpu {
    std::string text;             // "NVIDIA H100 80GB HBM3, CUDA 13.0"
    int64_t free = 0, total = 0;  // bytes
  };
  std::vector<Gpu> gpus;      // that this process can use
  std::string problem, cure;  // why there is one that it cannot use; empty: no such
  int num_on_bus = 0;         // NVIDIA's, that the machine has, with or without a driver
  std::string driver;         // "580.65.06"; empty: none is loaded
  bool has_part_for_gpus = false;  // libzero_cuda.so lies beside the program
  bool is_hidden = false;          // CUDA_VISIBLE_DEVICES is set
};

GpuFacts read_gpus();

Findings judge(const GpuFacts& facts);

}  // namespace zero::launcher
