#pragma once
#include "engine/comm/neighbours.h"

namespace zero {

// The processes of this host (of this PID namespace). Memory is anonymous: nothing is
// left in /dev/shm by a crash.
class ProcessNeighbours final : public Neighbours {
 public:
  std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket& ticket) override;
  std::shared_ptr<std::byte> open(const MemoryTicket& ticket, int64_t bytes) override;
  Identity self() const override;
  std::string reason_gone(const Identity& identity) const override;
};

}  // namespace zero
