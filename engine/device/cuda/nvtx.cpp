#include "engine/device/cuda/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace zero {

const Trace::Listener kNvtxRanges{[](const char* name) { nvtxRangePushA(name); },
                                  [] { nvtxRangePop(); }};

}  // namespace zero
