#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/comm/neighbours.h"
#include "zero/ranks.h"

namespace zero {

// A process that another one of this host has started as a rank: no MPI, no port, only
// memory that the starter has made for all of them.
struct StartedRank {
  int rank = 0, size = 1;
  int64_t starter = 0;  // its process
  int64_t slot_bytes = 0;
  MemoryTicket memory;
};

// The variable by which a starter tells a process that it is a rank, and which.
inline constexpr char kStarterVariable[] = "ZERO_STARTER";

// What such a variable says. Nothing where it is left over from another starter than the
// process that has started this one. Throws Error(kEnvironment) for other words.
std::optional<StartedRank> started_rank(const std::string& text);
// The same of this process's environment.
std::optional<StartedRank> started_rank();

// The memory of ranks that are still to be started. The starter keeps it as long as they
// run.
class StarterMemory {
 public:
  // slot_bytes, for tests: how much travels at once. 0: as much as is fast. Throws
  // Error(kEnvironment).
  explicit StarterMemory(int size, int64_t slot_bytes = 0);

  std::string variable_for(int rank) const;  // "ZERO_STARTER=..."

 private:
  const int size_;
  const int64_t starter_;
  const int64_t slot_bytes_;
  MemoryTicket ticket_;
  const std::shared_ptr<Neighbours> neighbours_;
  const std::shared_ptr<std::byte> memory_;
};

// The group of all ranks of one starter; once a process. Throws Error(kEnvironment).
std::unique_ptr<Ranks> join_started_ranks(const StartedRank& self);

}  // namespace zero
