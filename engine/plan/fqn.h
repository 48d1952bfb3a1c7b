#pragma once
#include <string>

namespace zero {

// Throw Error(kUsage) unless a name can be a key of a checkpoint (checkpoint/names.h) and
// has no empty components.
void check_fqn(const std::string& fqn);

}  // namespace zero
