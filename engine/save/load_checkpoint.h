#pragma once
#include <string>
#include <vector>

#include "zero/save_load.h"

namespace zero::checkpoint {
class Reader;
}

namespace zero {

// What keeps load_checkpoint() from reading it, as lines for people; none: it fits.
std::vector<std::string> misfits_of(Engine& engine, const checkpoint::Reader& reader,
                                    const LoadOptions& options);

}  // namespace zero
