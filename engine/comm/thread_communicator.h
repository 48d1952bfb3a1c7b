#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace zero {

class Communicator;

// Ranks as threads of this process: result[r] is for the thread that plays rank r.
//
// slot_bytes, for tests: how much travels at once. 0: as much as is fast.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, int64_t slot_bytes = 0);

// End the group of `communicator`, and all groups split or duplicated from the same
// beginning: whoever waits in one throws Error(kEnvironment). For a rank that fails
// without closing its communicators.
void abort_thread_communicators(Communicator& communicator);

// Has this process made several ranks? Then what a process has once, such as torch's
// generator, is shared by ranks.
bool ranks_are_threads();

}  // namespace zero
