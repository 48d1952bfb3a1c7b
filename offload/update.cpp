#include "offload/update.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "offload/kernels.h"
#include "offload/thread_pool.h"

namespace zero {
namespace {

void check(const Update& update) {
  const UpdatePiece& piece = update.piece;
  if (piece.numel < 0)
    throw std::invalid_argument("update: numel is " + std::to_string(piece.numel));
  if (piece.numel == 0) return;
  if (!piece.grad == !piece.grad_bf16)
    throw std::invalid_argument("update: give grad or grad_bf16, one of the two");
  const int num_states =
      std::visit([](const auto& rule) { return rule.kNumStates; }, update.rule);
  if (std::any_of(piece.state, piece.state + num_states, std::logical_not<>()))
    throw std::invalid_argument("update: a state is missing");
}

template <typename T>
T* advance(T* array, int64_t offset) {
  return array ? array + offset : nullptr;
}

void run(const UpdatePiece& piece, const UpdateRule& rule) {
  std::visit(
      [&]<class Rule>(const Rule& each) {
        std::get<UpdateKernel<Rule>>(fastest_kernels().updates)(piece, each);
      },
      rule);
}

}  // namespace

UpdatePiece part_of(const UpdatePiece& piece, int64_t begin, int64_t end) {
  return {.grad = advance(piece.grad, begin),
          .grad_bf16 = advance(piece.grad_bf16, begin),
          .master = piece.master + begin,
          .state = {advance(piece.state[0], begin), advance(piece.state[1], begin)},
          .copy_bf16 = advance(piece.copy_bf16, begin),
          .numel = end - begin};
}

void update(std::span<const Update> updates, ThreadPool& pool) {
  std::vector<int64_t> ends;  // of each piece, as if they followed each other
  int64_t numel = 0;
  for (const Update& each : updates) {
    check(each);
    ends.push_back(numel += each.piece.numel);
  }
  pool.parallel_for(numel, kUpdateChunkNumel, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; begin = std::min(end, ends[i++])) {
      const auto& [piece, rule] = updates[i];
      const int64_t first = ends[i] - piece.numel;
      run(part_of(piece, begin - first, std::min(end, ends[i]) - first), rule);
    }
  });
}

}  // namespace zero
