#include "engine/comm/shared_transport.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <vector>

#include "base/streaming_copy.h"
#include "base/text.h"
#include "engine/comm/host_memory.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {

namespace {

constexpr int kLookAfterMs = 100;

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Collectives go in rounds. In each, a rank fills its own slot, posts it, waits for the
// posts of the others and reads their slots. Two slots a rank let it fill the next one
// while the others still read. Ranks sleep while they wait and look ten times a second
// whether the rank waited for is still there, so that nobody waits for ever.
class SharedTransport final : public Transport {
 public:
  SharedTransport(std::shared_ptr<Neighbours> neighbours, SharedArea area, int rank)
      : Transport({rank, area.num_ranks()}, {rank, area.num_ranks()}),
        neighbours_(std::move(neighbours)),
        area_(std::move(area)) {
    area_.state(rank).identity = neighbours_->self();
    area_.state(rank).has_identity.store(1, std::memory_order_release);
  }

  ~SharedTransport() override { leave("its communicator was closed"); }

  // The arrays travel as one, end to end.
  using Transport::all_gather;
  void all_gather(const RankCall& call, std::span<const GatheredArray> arrays) override {
    exchange(
        call, bytes_of_shards(arrays), area_.slot_bytes(),
        [&](SlotPart piece, std::byte* own_slot) {
          for_arrays(arrays, piece, [&](const Stretch& part) {
            const std::byte* const from = part.shard();
            std::byte* const own_place = part.full(rank());
            if (size() > 1) StreamingCopy()(own_slot + part.in_slot, from, part.length);
            if (from != own_place) copy_bytes(own_place, from, part.length);
          });
        },
        [&](SlotPart piece, const SlotOf& slot_of) {
          for_arrays(arrays, piece, [&](const Stretch& part) {
            for (int peer = 0; peer < size(); ++peer) {
              if (peer != rank())
                copy_bytes(part.full(peer), slot_of(peer) + part.in_slot, part.length);
            }
          });
        });
  }

  // A slot holds one part for each other rank, side by side.
  void reduce_scatter(const RankCall& call, const void* full, float* shard,
                      int64_t shard_numel, DType type,
                      const SummedPiece& summed) override {
    const int64_t element = size_of(type);
    const int64_t num_parts = std::max(size() - 1, 1);
    const int64_t part_numel = area_.slot_bytes() / num_parts / element / 64 * 64;
    assert(part_numel > 0);
    auto part_of = [&](int reader, int writer) {
      // Readers in rank order, the writer left out.
      return (reader < writer ? reader : reader - 1) * part_numel * element;
    };
    auto in_full = [&](int reader, SlotPart piece) {  // full: (size, shard_numel)
      return static_cast<const std::byte*>(full) +
             (reader * shard_numel + piece.begin) * element;
    };
    std::vector<const void*> sources(size());
    exchange(
        call, shard_numel, part_numel,
        [&](SlotPart piece, std::byte* own_slot) {
          for (int peer = 0; peer < size(); ++peer) {
            if (peer == rank()) continue;
            StreamingCopy()(own_slot + part_of(peer, rank()), in_full(peer, piece),
                            piece.length * element);
          }
        },
        [&](SlotPart piece, const SlotOf& slot_of) {
          for (int peer = 0; peer < size(); ++peer) {
            sources[peer] = peer == rank() ? in_full(rank(), piece)
                                           : slot_of(peer) + part_of(rank(), peer);
          }
          tree_sum(sources, type, shard + piece.begin, piece.length);
          if (summed) summed(piece.begin, piece.begin + piece.length);
        });
  }

  void broadcast(const RankCall& call, void* data, int64_t bytes, int root) override {
    auto* at = static_cast<std::byte*>(data);
    exchange(
        call, bytes, area_.slot_bytes(),
        [&](SlotPart piece, std::byte* own_slot) {
          if (rank() == root) StreamingCopy()(own_slot, at + piece.begin, piece.length);
        },
        [&](SlotPart piece, const SlotOf& slot_of) {
          if (rank() != root) copy_bytes(at + piece.begin, slot_of(root), piece.length);
        });
  }

  void barrier(const RankCall& call) override {
    exchange(
        call, 0, 1, [](SlotPart, std::byte*) {}, [](SlotPart, const SlotOf&) {});
  }

  std::unique_ptr<Transport> split(const RankCall& call, int color) override {
    std::vector<int> color_of(size());
    all_gather(call, &color, color_of.data(), sizeof(int));
    const auto own = color_of.begin() + rank();
    const auto leader = std::find(color_of.begin(), color_of.end(), color);
    const auto num_members = static_cast<int>(std::count(leader, color_of.end(), color));
    const auto rank_in_part = static_cast<int>(std::count(leader, own, color));

    const int64_t bytes = SharedArea::bytes_for(num_members, area_.slot_bytes());
    std::shared_ptr<std::byte> memory;
    MemoryTicket ticket;
    std::vector<MemoryTicket> ticket_of(size());
    if (own == leader) memory = neighbours_->create(bytes, ticket);
    all_gather(call, &ticket, ticket_of.data(), sizeof(ticket));
    if (own != leader)
      memory = neighbours_->open(ticket_of[leader - color_of.begin()], bytes);
    auto part = std::make_unique<SharedTransport>(
        neighbours_, SharedArea(memory, num_members, area_.slot_bytes()), rank_in_part);
    barrier(call);  // everyone has opened: from now on a leader may close
    return part;
  }

  void leave(const std::string& reason) noexcept override {
    RankState& own = area_.state(rank());
    uint32_t present = RankState::kPresent;
    if (!own.presence.compare_exchange_strong(present, RankState::kLeaving)) return;
    const std::string first_line = reason.substr(0, reason.find('\n'));
    const size_t length = first_line.copy(own.reason_left, sizeof(own.reason_left) - 1);
    own.reason_left[length] = '\0';
    own.presence.store(RankState::kLeft, std::memory_order_release);
  }

  std::string reason_gone() const override {
    std::string reason;
    for (int peer = 0; peer < size() && reason.empty(); ++peer) {
      if (peer != rank()) reason = reason_gone(peer, /*has_waited_long=*/true);
    }
    return reason;
  }

  Neighbours& neighbours() { return *neighbours_; }

 private:
  // A range of the data that travels in one round.
  struct SlotPart {
    int64_t begin, length;
  };
  // What a slot has of one of the arrays.
  struct Stretch {
    const GatheredArray& array;
    int64_t in_slot, begin, length;  // `begin` in the shard

    const std::byte* shard() const {
      return static_cast<const std::byte*>(array.shard) + begin;
    }
    std::byte* full(int rank) const {
      return static_cast<std::byte*>(array.full) + rank * array.shard_bytes + begin;
    }
  };
  template <class Body>
  static void for_arrays(std::span<const GatheredArray> arrays, SlotPart piece,
                         const Body& body) {
    int64_t begin_of_array = 0;
    for (const GatheredArray& array : arrays) {
      const int64_t end_of_array = begin_of_array + array.shard_bytes;
      const int64_t begin = std::max(piece.begin, begin_of_array);
      const int64_t end = std::min(piece.begin + piece.length, end_of_array);
      if (begin < end)
        body(Stretch{array, begin - piece.begin, begin - begin_of_array, end - begin});
      begin_of_array = end_of_array;
    }
  }

  using Writer = std::function<void(SlotPart, std::byte* own_slot)>;
  using SlotOf = std::function<const std::byte*(int rank)>;
  using Reader = std::function<void(SlotPart, const SlotOf&)>;

  // Move `length` items in rounds of at most max_piece: write fills this rank's slot,
  // read sees all slots.
  void exchange(const RankCall& call, int64_t length, int64_t max_piece,
                const Writer& write, const Reader& read) {
    const int64_t num_rounds = std::max<int64_t>((length + max_piece - 1) / max_piece, 1);
    const uint32_t first_round = num_rounds_;
    auto piece = [&](int64_t i) {
      return SlotPart{i * max_piece, std::min(max_piece, length - i * max_piece)};
    };
    post(call, first_round, piece(0), write);
    wait_for_others(call, &RankState::posted, first_round + 1);
    require_same_calls(first_round);
    for (int64_t i = 0; i < num_rounds; ++i) {
      const auto round = first_round + static_cast<uint32_t>(i);
      if (i + 1 < num_rounds) post(call, round + 1, piece(i + 1), write);
      wait_for_others(call, &RankState::posted, round + 1);
      read_slots(round, piece(i), read);
    }
    num_rounds_ += static_cast<uint32_t>(num_rounds);
  }

  // The slot is free once all others have read what it held kNumSlots rounds ago.
  void post(const RankCall& call, uint32_t round, SlotPart piece, const Writer& write) {
    wait_for_others(call, &RankState::taken, round + 1 - RankState::kNumSlots);
    area_.call(rank(), round) = call;
    write(piece, area_.slot(rank(), round));
    area_.state(rank()).posted.advance();
  }

  void read_slots(uint32_t round, SlotPart piece, const Reader& read) {
    read(piece, [&](int rank) { return area_.slot(rank, round); });
    area_.state(rank()).taken.advance();
    Activity::here().sign();
  }

  void require_same_calls(uint32_t round) const {
    std::vector<RankCall> calls;
    for (int rank = 0; rank < size(); ++rank) calls.push_back(area_.call(rank, round));
    require_same_call(calls);
  }

  void wait_for_others(const RankCall& call, SharedCounter RankState::*counter,
                       uint32_t target) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) wait_for(peer, call, area_.state(peer).*counter, target);
    }
  }

  void wait_for(int peer, const RankCall& call, SharedCounter& counter, uint32_t target) {
    bool has_waited_long = false;
    while (!counter.has_reached(target)) {
      const std::string reason = reason_gone(peer, has_waited_long);
      // Its last act may have been to answer.
      if (!reason.empty() && !counter.has_reached(target)) {
        throw Error(ExitCode::kEnvironment, reason, description_of(call),
                    "the first error of that rank tells why");
      }
      has_waited_long = !counter.sleep(target, kLookAfterMs);
    }
  }

  std::string reason_gone(int peer, bool has_waited_long) const {
    const RankState& own = area_.state(rank());
    const RankState& state = area_.state(peer);
    if (own.presence.load(std::memory_order_acquire) == RankState::kLeft) {
      return text_of("this rank has left its group: ", own.reason_left);
    }
    if (state.presence.load(std::memory_order_acquire) == RankState::kLeft) {
      return text_of("rank ", peer, " has left: ", state.reason_left);
    }
    if (!has_waited_long) return "";
    const bool is_known = state.has_identity.load(std::memory_order_acquire);
    const std::string reason =
        neighbours_->reason_gone(is_known ? state.identity : Identity());
    return reason.empty() ? "" : text_of("rank ", peer, " ", reason);
  }

  const std::shared_ptr<Neighbours> neighbours_;
  const SharedArea area_;
  uint32_t num_rounds_ = 0;  // finished; the same on all ranks between calls
};

}  // namespace

std::unique_ptr<Transport> make_shared_transport(std::shared_ptr<Neighbours> neighbours,
                                                 SharedArea area, int rank) {
  return std::make_unique<SharedTransport>(std::move(neighbours), std::move(area), rank);
}

Neighbours& neighbours_of(Transport& transport) {
  return dynamic_cast<SharedTransport&>(transport).neighbours();
}

}  // namespace zero
