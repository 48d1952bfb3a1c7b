#pragma once
#include <functional>
#include <memory>

#include "engine/comm/neighbours.h"
#include "engine/comm/shared_area.h"
#include "engine/comm/transport.h"

namespace zero {

// Of a slot: large enough to wake the others seldom, small enough that a rank adds only
// 1 MiB to a group's memory. Between 256 KiB and 4 MiB speed hardly differs.
constexpr int64_t kDefaultSlotBytes = 512 << 10;

// A transport through memory that all ranks share.
//
// Collectives go in rounds. In each, a rank fills its own slot, posts it, waits for the
// posts of the others and reads their slots. Two slots a rank let it fill the next one
// while the others still read. Ranks sleep while they wait and look ten times a second
// whether the rank waited for is still there, so that nobody waits for ever.
class SharedTransport final : public Transport {
 public:
  SharedTransport(std::shared_ptr<Neighbours> neighbours, SharedArea area, int rank);
  ~SharedTransport() override;
  SharedTransport(const SharedTransport&) = delete;
  SharedTransport& operator=(const SharedTransport&) = delete;

  void all_gather(const Call& call, const void* shard, void* full,
                  int64_t shard_bytes) override;
  void reduce_scatter(const Call& call, const void* full, float* shard,
                      int64_t shard_numel, DType type,
                      const SummedPiece& summed) override;
  void broadcast(const Call& call, void* data, int64_t bytes, int root) override;
  void barrier(const Call& call) override;
  std::unique_ptr<Transport> split(const Call& call, int color) override;
  void leave(const std::string& reason) noexcept override;

  Neighbours& neighbours() { return *neighbours_; }

 private:
  // A range of the data that travels in one round.
  struct Piece {
    int64_t begin, length;
  };
  using Writer = std::function<void(Piece, std::byte* own_slot)>;
  using SlotOf = std::function<const std::byte*(int rank)>;
  using Reader = std::function<void(Piece, const SlotOf&)>;

  // Move `length` items in rounds of at most max_piece: write fills this rank's slot,
  // read sees all slots.
  void exchange(const Call& call, int64_t length, int64_t max_piece, const Writer& write,
                const Reader& read);
  void post(const Call& call, uint32_t round, Piece piece, const Writer& write);
  void take(uint32_t round, Piece piece, const Reader& read);
  void require_same_calls(uint32_t round) const;
  void wait_for_others(const Call& call, SharedCounter RankState::*counter,
                       uint32_t target);
  void wait_for(int peer, const Call& call, SharedCounter& counter, uint32_t target);
  std::string reason_gone(int peer, bool has_waited_long) const;

  std::shared_ptr<Neighbours> neighbours_;
  SharedArea area_;
  const int rank_;
  uint32_t num_rounds_ = 0;  // finished; the same on all ranks between calls
};

}  // namespace zero
