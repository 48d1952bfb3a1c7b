#include "offload/update.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/streaming_copy.h"
#include "offload/kernels.h"
#include "offload/thread_pool.h"

namespace zero {

namespace {

bool has_old_values(const UpdatePiece& piece) {
  return piece.old.master || piece.old.master_low;
}

}  // namespace

void check_piece(const UpdatePiece& piece, int num_states) {
  if (piece.numel < 0)
    throw std::invalid_argument("update: numel is " + std::to_string(piece.numel));
  if (piece.numel == 0) return;
  if (!piece.grad == !piece.grad_bf16)
    throw std::invalid_argument("update: give grad or grad_bf16, one of the two");
  if (!piece.master == !piece.master_low)
    throw std::invalid_argument("update: give master or master_low, one of the two");
  if (piece.master_low && !piece.copy_bf16)
    throw std::invalid_argument("update: master_low without copy_bf16, its other half");
  if (piece.copy_bf16 && piece.copy_fp16)
    throw std::invalid_argument("update: give copy_bf16 or copy_fp16, not both");
  const bool has_old = has_old_values(piece);
  for (int i = 0; i < num_states; ++i) {
    if (!piece.state[i] == !piece.state_bf16[i] || !piece.state[i] != !piece.state[0])
      throw std::invalid_argument("update: give state or state_bf16, all of one kind");
    if (has_old && (!piece.old.state[i] != !piece.state[i] ||
                    !piece.old.state_bf16[i] != !piece.state_bf16[i]))
      throw std::invalid_argument("update: old masters without the states' old values");
  }
  if (has_old &&
      (!piece.old.master_low != !piece.master_low || !piece.old.master != !piece.master))
    throw std::invalid_argument("update: old masters are stored in another way");
  if (!piece.old.master_low != !piece.old_high)
    throw std::invalid_argument("update: old.master_low and old_high belong together");
}

namespace {

int num_states_of(const UpdateRule& rule) {
  return std::visit([](const auto& each) { return each.kNumStates; }, rule);
}

// visit(array) of each array, null ones too.
template <class Values, class Visit>
void each_updated(Values& values, const Visit& visit) {
  visit(values.master), visit(values.master_low);
  for (int i = 0; i < kMaxStates; ++i)
    visit(values.state[i]), visit(values.state_bf16[i]);
}
template <class Piece, class Visit>
void each_array(Piece& piece, const Visit& visit) {
  visit(piece.grad), visit(piece.grad_bf16);
  each_updated(piece, visit), each_updated(piece.old, visit);
  visit(piece.old_high), visit(piece.copy_bf16), visit(piece.copy_fp16);
}

// Call work(piece, rule) for every part of every piece, on the thread that gets it.
template <class Work>
void share_out(std::span<const Update> updates, ThreadPool& pool, const Work& work) {
  std::vector<int64_t> ends;  // of each piece, as if they followed each other
  int64_t numel = 0;
  for (const Update& each : updates) ends.push_back(numel += each.piece.numel);
  pool.parallel_for(numel, kUpdateChunkNumel, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; begin = std::min(end, ends[i++])) {
      const auto& [piece, rule] = updates[i];
      const int64_t first = ends[i] - piece.numel;
      work(part_of(piece, begin - first, std::min(end, ends[i]) - first), rule);
    }
  });
}

// Few enough that they stay in the first-level cache.
constexpr int64_t kOldBlock = 1024;

// Masters and states of a block, whose old values lie elsewhere. The high halves of
// masters alone are changed in place.
class Block {
 public:
  explicit Block(const UpdatePiece& piece) : piece_(piece), near_(piece) {
    near_.master = take(masters_, piece.old.master);
    near_.master_low = take(low_, piece.old.master_low);
    for (int i = 0; i < kMaxStates; ++i) {
      near_.state[i] = take(states_[i], piece.old.state[i]);
      near_.state_bf16[i] = take(states_bf16_[i], piece.old.state_bf16[i]);
    }
  }
  const UpdatePiece& near() const { return near_; }

  void keep_high(StreamingCopy& copy) const {
    if (piece_.old_high) put(copy, piece_.old_high, piece_.copy_bf16);
  }
  // To where the new values belong, of which nothing need be read.
  void write(StreamingCopy& copy) const {
    put(copy, piece_.master, near_.master);
    put(copy, piece_.master_low, near_.master_low);
    for (int i = 0; i < kMaxStates; ++i) {
      put(copy, piece_.state[i], near_.state[i]);
      put(copy, piece_.state_bf16[i], near_.state_bf16[i]);
    }
  }

 private:
  template <typename T>
  T* take(T* values, const T* old) const {
    if (!old) return nullptr;
    std::memcpy(values, old, piece_.numel * sizeof(T));
    return values;
  }
  template <typename T>
  void put(StreamingCopy& copy, T* to, const T* values) const {
    if (values) copy(to, values, piece_.numel * int64_t{sizeof(T)});
  }

  const UpdatePiece& piece_;
  UpdatePiece near_;
  alignas(64) float masters_[kOldBlock];
  alignas(64) uint16_t low_[kOldBlock];
  alignas(64) float states_[kMaxStates][kOldBlock];
  alignas(64) uint16_t states_bf16_[kMaxStates][kOldBlock];
};

// As the loops do it, which know no old values.
void update_values(const UpdatePiece& piece, const UpdateRule& rule) {
  if (!has_old_values(piece)) return fastest_kernels().update(piece, rule);
  StreamingCopy copy;
  for (int64_t begin = 0; begin < piece.numel; begin += kOldBlock) {
    const UpdatePiece part =
        part_of(piece, begin, std::min(begin + kOldBlock, piece.numel));
    Block block(part);
    block.keep_high(copy);
    fastest_kernels().update(block.near(), rule);
    block.write(copy);
  }
}

// Set from several threads.
void set(uint32_t& flag) { std::atomic_ref(flag).store(1, std::memory_order_relaxed); }
bool is_set(uint32_t& flag) {
  return std::atomic_ref(flag).load(std::memory_order_relaxed) != 0;
}

bool has_gradient(const UpdatePiece& piece) {
  const auto is_other = [](auto value) { return load(value) != 0; };
  return piece.grad
             ? std::any_of(piece.grad, piece.grad + piece.numel, is_other)
             : std::any_of(piece.grad_bf16, piece.grad_bf16 + piece.numel, is_other);
}

// Of a few elements, before an update.
class Masters {
 public:
  explicit Masters(const UpdatePiece& piece) : piece_(piece) {
    keep(whole_, piece.old.master ? piece.old.master : piece.master);
    keep(low_, piece.old.master_low ? piece.old.master_low : piece.master_low);
    if (piece.master_low) keep(high_, piece.copy_bf16);
  }
  // Is a bit another one now?
  bool moved() const {
    return differ(whole_, piece_.master) || differ(low_, piece_.master_low) ||
           (piece_.master_low && differ(high_, piece_.copy_bf16));
  }

 private:
  template <typename T>
  void keep(T* to, const T* values) const {
    if (values) std::memcpy(to, values, piece_.numel * sizeof(T));
  }
  template <typename T>
  bool differ(const T* before, const T* now) const {
    return now && std::memcmp(before, now, piece_.numel * sizeof(T)) != 0;
  }

  const UpdatePiece& piece_;
  float whole_[kOldBlock];
  uint16_t low_[kOldBlock], high_[kOldBlock];
};

// Looks at few elements at a time, until both is seen: as a rule that is once.
void update_piece(const UpdatePiece& piece, const UpdateRule& rule) {
  int64_t begin = 0;
  while (piece.movement && begin < piece.numel) {
    const bool had_gradient = is_set(piece.movement->had_gradient);
    if (had_gradient && is_set(piece.movement->moved)) break;
    const UpdatePiece part =
        part_of(piece, begin, std::min(begin + kOldBlock, piece.numel));
    if (!had_gradient && has_gradient(part)) set(piece.movement->had_gradient);
    const Masters before(part);
    update_values(part, rule);
    if (before.moved()) set(piece.movement->moved);
    begin += part.numel;
  }
  if (begin < piece.numel) update_values(part_of(piece, begin, piece.numel), rule);
}

// One byte of each page is read and written back.
template <typename T>
void touch(const T* array, int64_t numel) {
  if (!array || numel == 0) return;
  auto* bytes = reinterpret_cast<volatile char*>(const_cast<T*>(array));
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const int64_t last = numel * int64_t{sizeof(T)} - 1;
  for (int64_t i = 0; i < last; i += page_bytes) bytes[i] = bytes[i];
  bytes[last] = bytes[last];
}

}  // namespace

UpdatePiece part_of(const UpdatePiece& piece, int64_t begin, int64_t end) {
  UpdatePiece part = piece;
  each_array(part, [&](auto*& array) {
    if (array) array += begin;
  });
  part.numel = end - begin;
  return part;
}

void update(std::span<const Update> updates, ThreadPool& pool) {
  for (const Update& each : updates) check_piece(each.piece, num_states_of(each.rule));
  share_out(updates, pool, update_piece);
}

void touch(std::span<const Update> updates, ThreadPool& pool) {
  share_out(updates, pool, [](const UpdatePiece& piece, const UpdateRule&) {
    each_array(piece, [&](const auto* array) { touch(array, piece.numel); });
  });
}

}  // namespace zero
