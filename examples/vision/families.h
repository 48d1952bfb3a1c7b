#pragma once
#include "launcher/model.h"

namespace zero {

// Models of images that --model of zero_launch can name.
ModelFamily regnet_family();

}  // namespace zero
