#pragma once

#include <vector>

namespace zero {

struct AdamPiece;
struct AdamScalars;

// The AdamW sweep over one piece on one thread, compiled for one instruction set.
struct AdamKernel {
  const char* isa;
  void (*run)(const AdamPiece& piece, const AdamScalars& scalars);
};

// The versions that this CPU can run, the plain one first, the fastest last. All give the
// same bits. The build picks the file that lists them.
std::vector<AdamKernel> adam_kernels();

}  // namespace zero
