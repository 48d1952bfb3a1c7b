#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/memory_file.h"

namespace zero {

// Who a rank is, for the others to see whether it is still there. All zero: not known
// yet.
struct Identity {
  int64_t process = 0;
  int64_t start_time = 0;  // tells a process from a later one with the same number
};

// The ranks that can share memory with this one: threads of the process, or processes of
// the host.
class Neighbours {
 public:
  virtual ~Neighbours() = default;

  // Make zeroed memory and the ticket by which the others open it; the ticket is good
  // while the maker keeps the memory. Throws Error(kEnvironment).
  virtual std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket& ticket) = 0;
  virtual std::shared_ptr<std::byte> open(const MemoryTicket& ticket, int64_t bytes) = 0;

  virtual Identity self() const = 0;
  // Why the rank of this identity will never answer, or nothing; of one that is not known
  // yet, why it will never come. Cheap enough for ten calls a second.
  virtual std::string reason_gone(const Identity& identity) const = 0;
};

// The processes of this host (of this PID namespace).
std::shared_ptr<Neighbours> make_process_neighbours();

}  // namespace zero
