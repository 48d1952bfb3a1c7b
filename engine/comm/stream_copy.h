#pragma once
#include <cstdint>

namespace zero {

// Copy memory past the caches, for data that another core reads next.
//
// Plain stores into lines that a reader's cache still holds cost 5 times as much: each
// has to be taken back from that core first. `to` must be 16-byte aligned. Visible to
// other threads after the caller's next release.
void stream_copy(void* to, const void* from, int64_t bytes);

}  // namespace zero
