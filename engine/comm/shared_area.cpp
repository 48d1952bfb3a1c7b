#include "engine/comm/shared_area.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <climits>
#include <ctime>

namespace zero {
namespace {

// Not the "private" kind: the word may be mapped by several processes.
long futex(std::atomic<uint32_t>* word, int operation, uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout,
                 nullptr, 0);
}

constexpr int64_t kPage = 4096;

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

int64_t states_bytes(int num_ranks) {
  return whole_pages(num_ranks * static_cast<int64_t>(sizeof(RankState)));
}

}  // namespace

// Sequential consistency in advance() and sleep(): of "value moved" and "somebody sleeps"
// at least one side sees the other's, so no wake-up is lost.
void SharedCounter::advance() {
  value_.fetch_add(1);
  if (num_sleepers_.load() > 0) futex(&value_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool SharedCounter::has_reached(uint32_t target) const {
  return static_cast<int32_t>(value_.load(std::memory_order_acquire) - target) >= 0;
}

bool SharedCounter::sleep(uint32_t target, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000L};
  num_sleepers_.fetch_add(1);
  const uint32_t value = value_.load();
  bool is_out_of_time = false;
  if (static_cast<int32_t>(value - target) < 0) {
    is_out_of_time =
        futex(&value_, FUTEX_WAIT, value, &timeout) != 0 && errno == ETIMEDOUT;
  }
  num_sleepers_.fetch_sub(1);
  return !is_out_of_time;
}

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

RankCall& SharedArea::call(int rank, uint32_t round) const {
  return state(rank).calls[round % RankState::kNumSlots];
}

std::byte* SharedArea::slot(int rank, uint32_t round) const {
  const int64_t index =
      rank * int64_t{RankState::kNumSlots} + round % RankState::kNumSlots;
  return memory_.get() + states_bytes(num_ranks_) + index * slot_bytes_;
}

}  // namespace zero
