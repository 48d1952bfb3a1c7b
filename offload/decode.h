#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

namespace zero {

class ThreadPool;

// Weights that lie in memory in one type, kBf16, kFp16 or kInt8, and are computed with in
// another that is no narrower, kFp32, kBf16 or kFp16.
//
// to (numel) = from (numel), rounded to nearest where `to` is a type of 16 bits. The two
// do not overlap, or `from` is the last bytes_from() of the bytes_to() that `to` has, and
// becomes values as these are written.
struct Decoding {
  DType from_type, to_type;
  const void* from;
  void* to;
  int64_t numel;  // a multiple of kAlign

  static constexpr int64_t kAlign = Int8Block::kNumel;
  int64_t bytes_from() const { return bytes_of(from_type, numel); }
  int64_t bytes_to() const { return bytes_of(to_type, numel); }
  bool overlaps() const {
    return from == static_cast<const char*>(to) + bytes_to() - bytes_from();
  }
};

void decode(const Decoding& decoding, ThreadPool& threads);

// Calls run(begin, end) for stretches of the elements, in their order. Each may read and
// write its elements in any order: none writes where it or a later one will read. Then
// calls run_rest(begin, end) for what is left, kMostLeft elements or fewer, which must be
// read before any of them is written.
inline constexpr int64_t kMostLeft = 2 * Decoding::kAlign;
template <class Run, class RunRest>
void in_stretches(const Decoding& all, const Run& run, const RunRest& run_rest) {
  const int64_t numel = all.numel;
  // Where an element is as wide as before, it is read where it is written.
  if (!all.overlaps() || all.bytes_from() == all.bytes_to()) return run(0, numel);
  int64_t begin = 0;
  while (begin < numel) {
    const int64_t unread = bytes_of(all.from_type, numel - begin);
    const int64_t end = (all.bytes_to() - unread) / size_of(all.to_type) /
                        Decoding::kAlign * Decoding::kAlign;
    if (end <= begin) return run_rest(begin, numel);
    run(begin, end);
    begin = end;
  }
}

}  // namespace zero
