#include "base/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

namespace zero::streaming_copy_test {
namespace {

// Any begin and end within lines of 64 bytes, and nothing beside them.
TEST(StreamingCopy, CopiesTheBytesAndNoOthers) {
  constexpr int64_t kRoom = 320;
  std::vector<unsigned char> from(kRoom), to(kRoom);
  std::iota(from.begin(), from.end(), 1);
  for (const int64_t offset : {0, 1, 4, 16, 63}) {
    for (const int64_t source : {0, 2, 17}) {
      for (const int64_t bytes : {0, 1, 63, 64, 65, 127, 129, 200}) {
        std::fill(to.begin(), to.end(), 0);
        StreamingCopy()(to.data() + offset, from.data() + source, bytes);
        for (int64_t i = 0; i < kRoom; ++i) {
          const bool is_copied = offset <= i && i < offset + bytes;
          ASSERT_EQ(to[i], is_copied ? from[source + i - offset] : 0)
              << offset << " " << source << " " << bytes << " at " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zero::streaming_copy_test
