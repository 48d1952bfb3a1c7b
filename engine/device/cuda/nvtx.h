#pragma once
#include "engine/watch/trace.h"

namespace zero {

// Makes each span a range of the calling thread for NVIDIA's profilers. Next to nothing
// where none looks on.
extern const Trace::Listener kNvtxRanges;

}  // namespace zero
