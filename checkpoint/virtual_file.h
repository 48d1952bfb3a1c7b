#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// Make checkpoint.h5, in memory: every tensor under /KIND/FQN in its natural shape, as a
// virtual dataset over the shard files beside it. It holds no values itself.
//
// A missing shard reads as all bits set: NaN, -1 or 255. A scalar appears as shape (1).
// Aliases are hard links to their parameter.
File make_virtual_image(const std::vector<TensorEntry>& tensors,
                        const std::map<std::string, std::string>& aliases);

}  // namespace zero::checkpoint
