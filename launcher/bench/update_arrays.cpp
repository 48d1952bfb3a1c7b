#include "launcher/bench/update_arrays.h"

#include <cmath>
#include <numeric>

#include "engine/step/addition.h"

namespace zero::launcher {
namespace {

constexpr int64_t kAlignedNumel = 64;  // as in a flat layout
constexpr int64_t kChunkNumel = 1 << 16;

// A block of width d: two norms, attention, an MLP of 4 d; 12 d^2 + 13 d elements.
std::vector<int64_t> block_of_width(int64_t d) {
  return {d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d};
}

// The widest block, its width a multiple of the alignment, of so many elements at most.
std::vector<int64_t> block_of(int64_t numel) {
  const auto width = static_cast<int64_t>(std::sqrt(static_cast<double>(numel) / 12.5));
  return block_of_width(std::max(kAlignedNumel, width / kAlignedNumel * kAlignedNumel));
}

int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

}  // namespace

UpdateArrays::UpdateArrays(int num_units, int64_t array_bytes, ThreadPool& threads)
    : tensors_(block_of(array_bytes / 4 / num_units)),
      unit_numel_(sum_of(tensors_)),
      numel_(unit_numel_ * num_units),
      arena_("bench", 5 * HostArena::padded(numel_ * 4) + HostArena::padded(numel_ * 2)),
      grad_(arena_.allocate_array<float>("grad", numel_)),
      pass_(arena_.allocate_array<float>("pass", numel_)),
      master_(arena_.allocate_array<float>("master", numel_)),
      exp_avg_(arena_.allocate_array<float>("exp_avg", numel_)),
      exp_avg_sq_(arena_.allocate_array<float>("exp_avg_sq", numel_)),
      copy_(arena_.allocate_array<uint16_t>("copy", numel_)) {
  fill(threads);
}

UpdatePiece UpdateArrays::whole(bool with_copy) const {
  return {.grad = grad_,
          .master = master_,
          .state = {exp_avg_, exp_avg_sq_},
          .copy_bf16 = with_copy ? copy_ : nullptr,
          .numel = numel_};
}

// The one place of the launcher that calls an optimizer: unit by unit, as a step does.
void UpdateArrays::update(bool with_copy, ThreadPool& threads) {
  const UpdateRule rule = make_rule({}, 1e-4, ++step_, 1);
  const UpdatePiece all = whole(with_copy);
  for (int64_t begin = 0; begin < numel_;) {
    std::vector<Update> unit;
    for (const int64_t numel : tensors_) {
      unit.push_back({part_of(all, begin, begin + numel), rule});
      begin += numel;
    }
    zero::update(unit, threads);
  }
}

void UpdateArrays::sum_gradients(bool with_norm, ThreadPool& threads) const {
  GradientNorm norm(NormType::kL2);
  for (int64_t begin = 0; begin < numel_; begin += unit_numel_) {
    float* sum = grad_ + begin;
    add_up({.left = sum,
            .right = pass_ + begin,
            .sum = sum,
            .norm = with_norm ? &norm : nullptr},
           0, unit_numel_, threads);
  }
}

// Ordinary numbers, and a second gradient of zeros, so that they stay so; every page is
// written to.
void UpdateArrays::fill(ThreadPool& threads) const {
  threads.parallel_for(numel_, kChunkNumel, [this](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      grad_[i] = 0.01f * static_cast<float>(i % 101 - 50);
      master_[i] = 0.02f * static_cast<float>(i % 97 - 48);
      pass_[i] = exp_avg_[i] = exp_avg_sq_[i] = 0;
      copy_[i] = 0;
    }
  });
}

}  // namespace zero::launcher
