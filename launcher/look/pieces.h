#pragma once
#include <algorithm>
#include <cstdint>

#include "checkpoint/tensor.h"

namespace zero::launcher {

// What is read of a tensor at once: whole chunks, so that few are read and hashed twice.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

// Cut a tensor of any size: use(begin, numel), in elements. Where a second one, of
// another type, is read beside it, `wider` is the larger of both elements' sizes.
template <class Use>
void for_each_piece(int64_t numel, int64_t wider, Use use) {
  const int64_t most = kPieceBytes / wider;
  for (int64_t begin = 0; begin < numel; begin += most)
    use(begin, std::min(most, numel - begin));
}

}  // namespace zero::launcher
