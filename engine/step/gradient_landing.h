#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "engine/device/device.h"
#include "engine/step/addition.h"
#include "offload/host_arena.h"

namespace zero {

// Add what lies in a GPU's memory to sums in the host's, a piece at a time: while threads
// of the host add some, the next ones come over.
class GradientLanding {
 public:
  // Pieces of `bytes` leave in the stream `out`, whose device this is, and a worker of it
  // has them added by `threads`.
  GradientLanding(Device& device, Stream& out, HostStream& worker, ThreadPool& threads,
                  int64_t bytes);

  // Queue the addition, whose right side comes over: `values` (numel) of `type`, kFp32 or
  // kBf16. `tag` names them in a trace.
  void add(const Addition& addition, const void* values, DType type, int64_t numel,
           const std::string& tag);
  int64_t host_bytes() const { return arena_.capacity_bytes(); }

 private:
  struct Place {
    std::byte* memory = nullptr;
    Event arrived, added;
  };

  Place& next_place();

  const int64_t bytes_;
  Stream& out_;
  HostStream& worker_;
  ThreadPool& threads_;
  HostArena arena_;
  std::list<Place> places_;  // in the order in which they were taken last
  std::optional<Pinned> pinned_;
};

}  // namespace zero
