#include "engine/comm/shared_area.h"

#include <cassert>

namespace zero {

namespace {

constexpr int64_t kPage = 4096;

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

int64_t states_bytes(int num_ranks) {
  return whole_pages(num_ranks * static_cast<int64_t>(sizeof(RankState)));
}

}  // namespace

int64_t SharedArea::bytes_for(int num_ranks, int64_t slot_bytes) {
  return states_bytes(num_ranks) +
         num_ranks * RankState::kNumSlots * whole_pages(slot_bytes);
}

SharedArea::SharedArea(std::shared_ptr<std::byte> memory, int num_ranks,
                       int64_t slot_bytes)
    : memory_(std::move(memory)),
      num_ranks_(num_ranks),
      slot_bytes_(whole_pages(slot_bytes)) {}

RankState& SharedArea::state(int rank) const {
  assert(0 <= rank && rank < num_ranks_);
  return reinterpret_cast<RankState*>(memory_.get())[rank];
}

Call& SharedArea::call(int rank, uint32_t round) const {
  return state(rank).calls[round % RankState::kNumSlots];
}

std::byte* SharedArea::slot(int rank, uint32_t round) const {
  const int64_t index =
      rank * int64_t{RankState::kNumSlots} + round % RankState::kNumSlots;
  return memory_.get() + states_bytes(num_ranks_) + index * slot_bytes_;
}

}  // namespace zero
