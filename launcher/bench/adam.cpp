#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "engine/step/addition.h"
#include "launcher/bench/benches.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "offload/fastest_threads.h"
#include "offload/host_arena.h"
#include "offload/sweep.h"
#include "offload/thread_pool.h"
#include "offload/update.h"

namespace zero::launcher {
namespace {

constexpr int64_t kAlignedNumel = 64;  // as in a flat layout
constexpr int64_t kChunkNumel = 1 << 16;

// The widest block, its width d a multiple of the alignment, of so many elements at most:
// two norms, attention, an MLP of 4 d; 12 d^2 + 13 d elements.
std::vector<int64_t> block_of(int64_t numel) {
  const auto width = static_cast<int64_t>(std::sqrt(static_cast<double>(numel) / 12.5));
  const int64_t d = std::max(kAlignedNumel, width / kAlignedNumel * kAlignedNumel);
  return {d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d};
}

// Arrays that hold the shards of some units, laid end to end, each of 12 tensors that
// have the sizes of a transformer's block; and what a step does to them on the host.
class UpdateArrays {
 public:
  // Each fp32 array has about `array_bytes`, never more. All is touched by `threads`.
  UpdateArrays(int num_units, int64_t array_bytes, ThreadPool& threads)
      : tensors_(block_of(array_bytes / 4 / num_units)),
        unit_numel_(std::accumulate(tensors_.begin(), tensors_.end(), int64_t{0})),
        numel_(unit_numel_ * num_units),
        arena_("bench",
               5 * HostArena::padded(numel_ * 4) + HostArena::padded(numel_ * 2)),
        grad_(arena_.allocate_array<float>("grad", numel_)),
        pass_(arena_.allocate_array<float>("pass", numel_)),
        master_(arena_.allocate_array<float>("master", numel_)),
        exp_avg_(arena_.allocate_array<float>("exp_avg", numel_)),
        exp_avg_sq_(arena_.allocate_array<float>("exp_avg_sq", numel_)),
        copy_(arena_.allocate_array<uint16_t>("copy", numel_)) {
    fill(threads);
  }

  int64_t numel() const { return numel_; }

  // All of it as one piece, for the limit; with a copy of the masters in bf16 or without.
  UpdatePiece whole(bool with_copy) const {
    return {.grad = grad_,
            .master = master_,
            .state = {exp_avg_, exp_avg_sq_},
            .copy_bf16 = with_copy ? copy_ : nullptr,
            .numel = numel_};
  }

  // One AdamW step on each tensor, unit by unit, as a step does. The one place of the
  // launcher that calls an optimizer.
  void update(bool with_copy, ThreadPool& threads) {
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

  // Add a second gradient to the first, unit by unit; with the norm of the sum or
  // without.
  void sum_gradients(bool with_norm, ThreadPool& threads) const {
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

 private:
  // Ordinary numbers, and a second gradient of zeros, so that they stay so; every page is
  // written to.
  void fill(ThreadPool& threads) const {
    threads.parallel_for(numel_, kChunkNumel, [this](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        grad_[i] = 0.01f * static_cast<float>(i % 101 - 50);
        master_[i] = 0.02f * static_cast<float>(i % 97 - 48);
        pass_[i] = exp_avg_[i] = exp_avg_sq_[i] = 0;
        copy_[i] = 0;
      }
    });
  }

  const std::vector<int64_t> tensors_;  // elements of each tensor of a unit
  const int64_t unit_numel_, numel_;
  HostArena arena_;
  float *grad_, *pass_, *master_, *exp_avg_, *exp_avg_sq_;  // (numel)
  uint16_t* copy_;                                          // (numel)
  int64_t step_ = 0;
};

std::vector<Row> rows_of(UpdateArrays& arrays, int num_units, int num_threads,
                         int64_t num_rounds) {
  ThreadPool threads(num_threads);
  const auto timed = [](auto work) { return [work] { return seconds_of(work); }; };
  const auto sum = [&](bool with_norm) {
    return timed([&, with_norm] { arrays.sum_gradients(with_norm, threads); });
  };
  const auto swept = [&](bool with_copy) {
    return timed([&, with_copy] { sweep(arrays.whole(with_copy), threads); });
  };
  const auto update = [&](bool with_copy) {
    return timed([&, with_copy] { arrays.update(with_copy, threads); });
  };
  const std::vector<Seconds> seconds = alternate(
      {sum(false), sum(true), swept(false), update(false), swept(true), update(true)},
      num_rounds);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& copy,
                       const Seconds& measured, int64_t bytes, const std::string& limit,
                       const Seconds& of_limit) {
    rows.push_back(with_result({{"name", name},
                                {"copy", copy},
                                {"units", num_units},
                                {"threads", num_threads},
                                {"parameters", arrays.numel()}},
                               measured, bytes, limit, of_limit));
  };
  add("sum with norm", "", seconds[1], arrays.numel() * 12, "sum without", seconds[0]);
  const Seconds norm = beyond(seconds[1], seconds[0]);
  for (const bool with_copy : {false, true}) {
    const std::string copy = with_copy ? "bf16" : "none";
    const Seconds& limit = seconds[with_copy ? 4 : 2];
    const Seconds& measured = seconds[with_copy ? 5 : 3];
    const int64_t bytes = swept_bytes(arrays.whole(with_copy));
    add("update", copy, measured, bytes, "sweep", limit);
    add("update and norm", copy, measured + norm, bytes, "sweep", limit);
  }
  return rows;
}

}  // namespace

std::vector<Row> bench_adam(const BenchOptions& options) {
  const Settings& settings = options.settings;
  const Cores cores = take_cores(World(std::nullopt), settings.bind);
  const int most =
      settings.threads > 0 ? static_cast<int>(settings.threads) : cores.share;
  std::vector<Row> rows;
  for (const int num_units : {1, 24}) {
    ThreadPool all(most);
    UpdateArrays arrays(num_units, options.size, all);
    for (const int num_threads : threads_to_try(most))
      std::ranges::move(rows_of(arrays, num_units, num_threads, options.rounds),
                        std::back_inserter(rows));
  }
  return rows;
}

}  // namespace zero::launcher
