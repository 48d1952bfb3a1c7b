#pragma once
#include <cstdint>

namespace zero {
class Collectives;
class Device;
class Ranks;
}  // namespace zero

// What libzero_cuda.so offers where it was built with NCCL; the caller owns the result.
extern "C" zero::Collectives* zero_make_nccl_collectives(zero::Ranks& ranks,
                                                         zero::Device& gpu,
                                                         void* exchange,
                                                         int64_t exchange_bytes);
