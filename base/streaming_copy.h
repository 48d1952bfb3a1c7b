#pragma once

#include <cstdint>

#include "base/no_copy.h"

namespace zero {

// Copies memory past the caches: for data that another core reads next, or nobody for
// long. Plain stores read each line before they write it, and lines that a reader's cache
// still holds cost 5 times as much: each has to be taken back from that core first.
//
// What it copied is visible to other threads after its end and this thread's next
// release. Any alignment; lines of 64 bytes are written at once.
class StreamingCopy : NoCopy {
 public:
  ~StreamingCopy();
  void operator()(void* to, const void* from, int64_t bytes);
};

}  // namespace zero
