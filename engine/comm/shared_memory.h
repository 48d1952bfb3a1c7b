#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/no_copy.h"

namespace zero {

class Ranks;

// Zeroed memory that the ranks of a host have together: what one of them writes, all can
// read. When that is, is theirs to agree on.
class SharedMemory : NoCopy {
 public:
  // Collective among the ranks of `group`, which are all on one host. Throws
  // Error(kEnvironment) on all of them.
  SharedMemory(Ranks& group, int64_t bytes);

  std::byte* data() const { return data_.get(); }
  // The same memory for reading. Whoever writes there hides what he writes over from
  // himself, and from nobody else, until refresh_view().
  std::byte* view() const { return view_.get(); }
  void refresh_view();
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
  std::shared_ptr<std::byte> data_, view_;
};

// Are the ranks of each group on one host, and can they share memory there? The same on
// all ranks. Collective among `all` and each `group`.
bool can_share_memory(Ranks& group, Ranks& all);

}  // namespace zero
