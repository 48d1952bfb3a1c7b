#pragma once

namespace zero {

struct Options;

// How LibTorch computes on GPUs, as long as this lives: with TF32 or without, and with
// Options::deterministic by operators alone that give the same bits each time; LibTorch
// throws the name of one that has no such way. For the whole process, in which all such
// have the same options; then as it was.
//
// Made before cuBLAS is first used, which looks at the environment then.
class GpuArithmetic {
 public:
  explicit GpuArithmetic(const Options& options);
  ~GpuArithmetic();
  GpuArithmetic(const GpuArithmetic&) = delete;
  GpuArithmetic& operator=(const GpuArithmetic&) = delete;
};

}  // namespace zero
