#pragma once
#include <cstdint>
#include <memory>

#include "engine/comm/collectives.h"

namespace zero {

class Device;
class Ranks;

// Has the library for GPUs been built with NCCL? Only where there is a GPU.
bool has_nccl();

// Over the memory of GPUs, one for each rank, by NCCL: `gpu` is this rank's, which
// outlives this, as do the `exchange_bytes` of its memory at `exchange`. Reductions in
// tree order or of bf16 pass through them: 512 bytes for each rank, or more; others need
// none. Collective: all ranks throw if one cannot. Error(kEnvironment).
//
// Ranks compare their calls through the host's memory, for which NCCL's work waits. Where
// they differ that work is cut short, and whoever waits for it gets the Error. What NCCL
// finds out later, such as a rank that is gone, ends the communicator, too: every waiter
// gets an Error that names the call and what the rank was doing.
std::unique_ptr<Collectives> make_nccl_collectives(Ranks& ranks, Device& gpu,
                                                   void* exchange,
                                                   int64_t exchange_bytes);

}  // namespace zero

// What libzero_cuda.so offers for it where it was built with NCCL; the caller owns the
// result.
extern "C" zero::Collectives* zero_make_nccl_collectives(zero::Ranks& ranks,
                                                         zero::Device& gpu,
                                                         void* exchange,
                                                         int64_t exchange_bytes);
