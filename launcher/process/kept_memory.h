#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/no_copy.h"

namespace zero::launcher {

// Lend blocks of one range of addresses, and keep what comes back for the next block.
//
// A step frees and takes the same tensors over and over. The C library's heap, where
// small objects lie between them, grows gaps: it takes up to half again of what tensors
// hold. Here neighbouring free blocks join, and where none is large enough, the new block
// takes the largest of them on into the fresh pages behind it, or fresh pages alone, and
// the kernel gets as many of the kept ones back. So the pages that are held are never
// more than the most that has been lent at one time. Thread-safe.
class KeptMemory : NoCopy {
 public:
  // Reserve `bytes` of addresses, which takes no memory. Without them, nothing is lent.
  explicit KeptMemory(int64_t bytes);
  ~KeptMemory();

  // Whole pages: what a block of so many bytes takes.
  static int64_t bytes_of(int64_t bytes);

  // A block of whole pages, whose values are of no meaning; null where no room is left.
  std::byte* lend(int64_t bytes);
  // Of lend(), and only that. Returns its bytes.
  int64_t take_back(std::byte* block);

  bool has(const void* memory) const;

  struct Use {
    int64_t lent = 0;      // bytes now
    int64_t kept = 0;      // bytes of free blocks that have pages
    int64_t most = 0;      // lent at one time
    int64_t returned = 0;  // bytes that the kernel got back, in all
  };
  Use use() const;

 private:
  enum class State { kLent, kKept, kFresh };  // fresh: without pages
  struct Block {
    int64_t bytes = 0;
    State state = State::kFresh;
  };
  using Blocks = std::map<std::byte*, Block>;
  using BySize = std::set<std::pair<int64_t, std::byte*>>;

  BySize& by_size(State state) { return state == State::kKept ? kept_ : fresh_; }
  std::byte* lend_from(State state, int64_t bytes);
  std::byte* lend_into_fresh(int64_t bytes);
  void return_pages(int64_t bytes);
  void put(std::byte* start, Block block);
  Block take_out(Blocks::iterator at);

  mutable std::mutex mutex_;
  std::byte* start_ = nullptr;
  int64_t bytes_ = 0;
  Blocks blocks_;  // all of the range, without gaps
  BySize kept_, fresh_;
  Use use_;
};

}  // namespace zero::launcher
