#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/comm/neighbours.h"
#include "engine/comm/transport.h"

namespace zero {

// A counter in memory that ranks share: one rank advances it, the others sleep until it
// has come far enough.
//
// Works between threads and between processes (a futex). What was written before
// advance() is visible after has_reached(). Wraps around: targets must lie within 2^31 of
// the value. All zero bits are the start value.
class SharedCounter {
 public:
  void advance();
  bool has_reached(uint32_t target) const;
  // Sleep until the counter may have moved, at most timeout_ms; false if the time ran
  // out.
  bool sleep(uint32_t target, int timeout_ms);

 private:
  std::atomic<uint32_t> value_{0};
  // A rank that advances makes no system call while nobody sleeps.
  std::atomic<uint32_t> num_sleepers_{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// What a rank shows to the others. Only the rank itself writes it (but for the counters'
// sleepers).
struct RankState {
  // One is filled while the others read the other one.
  static constexpr uint32_t kNumSlots = 2;

  alignas(64) SharedCounter posted;  // rounds whose slot this rank has filled
  alignas(64) SharedCounter taken;   // rounds whose slots this rank has read, all of them
  RankCall calls[kNumSlots];         // what the slot's round belongs to

  enum Presence : uint32_t {
    kPresent,
    kLeaving,
    kLeft
  };  // kLeft: reason_left is complete
  std::atomic<uint32_t> presence{kPresent};
  char reason_left[500];

  std::atomic<uint32_t> has_identity{0};
  Identity identity;
};

// Memory that the ranks of a group share: a state and two slots for each of them. Zeroed
// memory is ready to use.
class SharedArea {
 public:
  static int64_t bytes_for(int num_ranks, int64_t slot_bytes);
  SharedArea(std::shared_ptr<std::byte> memory, int num_ranks, int64_t slot_bytes);

  int num_ranks() const { return num_ranks_; }
  int64_t slot_bytes() const { return slot_bytes_; }  // a multiple of 4096
  RankState& state(int rank) const;
  RankCall& call(int rank, uint32_t round) const;
  std::byte* slot(int rank, uint32_t round) const;

 private:
  std::shared_ptr<std::byte> memory_;
  int num_ranks_;
  int64_t slot_bytes_;
};

}  // namespace zero
