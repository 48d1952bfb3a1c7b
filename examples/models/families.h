#pragma once
#include "launcher/model.h"

namespace zero {

// The models that --model of zero_launch can name.
ModelFamilies example_families();

}  // namespace zero
