#pragma once
#include "engine/comm/ranks.h"
#include "engine/options.h"

namespace zero {

// The GPU that this rank computes on, each rank of a host on its own, as far as they go;
// -1: on the host, as all ranks do. Collective: every rank throws if one cannot use its
// GPU, if some have one and others have not, if ranks would share one and
// Options::share_gpu does not allow it, or if there is none and kCuda asks for it.
// Error(kEnvironment).
int choose_gpu(const Options& options, Ranks& ranks);

}  // namespace zero
