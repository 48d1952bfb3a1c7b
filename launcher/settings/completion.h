#pragma once
#include <string>
#include <vector>

#include "launcher/model.h"

namespace zero::launcher {

// A script for bash that completes verbs, the flags of each, and the values of those that
// have a few.
std::string bash_completion(const std::vector<std::string>& verbs,
                            const ModelFamilies& models);

}  // namespace zero::launcher
