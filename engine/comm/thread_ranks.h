#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "zero/ranks.h"

namespace zero {

// Ranks as threads of this process: result[r] is for the thread that plays rank r.
//
// slot_bytes, for tests: how much travels at once. 0: as much as is fast.
std::vector<std::unique_ptr<Ranks>> make_thread_ranks(int size, int64_t slot_bytes = 0);

// Has this process made several ranks? Then what a process has once, such as torch's
// generator, is shared by ranks.
bool ranks_are_threads();

}  // namespace zero
