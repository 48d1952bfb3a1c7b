#include "launcher/bench/adam.h"

#include <algorithm>

#include "launcher/bench/update_arrays.h"
#include "launcher/process/binding.h"
#include "offload/fastest_threads.h"
#include "offload/sweep.h"
#include "offload/thread_pool.h"

namespace zero::launcher {
namespace {

// What one round takes, in the order in which it goes.
struct AdamSeconds {
  Seconds sum, sum_with_norm;
  struct {
    Seconds sweep, update;
  } without_copy, with_copy;
};

AdamSeconds time_all(UpdateArrays& arrays, ThreadPool& threads, int64_t rounds) {
  const auto sweep_of = [&](bool with_copy) {
    return [&, with_copy] {
      return seconds_of([&] { sweep(arrays.whole(with_copy), threads); });
    };
  };
  const auto update_of = [&](bool with_copy) {
    return
        [&, with_copy] { return seconds_of([&] { arrays.update(with_copy, threads); }); };
  };
  const auto sum_of = [&](bool with_norm) {
    return [&, with_norm] {
      return seconds_of([&] { arrays.sum_gradients(with_norm, threads); });
    };
  };
  std::vector<Seconds> all =
      alternate({sum_of(false), sum_of(true), sweep_of(false), update_of(false),
                 sweep_of(true), update_of(true)},
                rounds);
  return {all[0], all[1], {all[2], all[3]}, {all[4], all[5]}};
}

std::vector<Row> rows_of(const AdamSeconds& seconds, const UpdateArrays& arrays,
                         int num_units, int num_threads) {
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& copy,
                       const Seconds& measured, int64_t bytes, const std::string& limit,
                       const Seconds& of_limit) {
    Row row = {{"name", name},
               {"copy", copy},
               {"units", num_units},
               {"threads", num_threads},
               {"parameters", arrays.numel()}};
    add_result(row, measured, bytes, limit, of_limit);
    rows.push_back(std::move(row));
  };
  const Seconds norm = seconds.sum_with_norm - seconds.sum;
  add("sum with norm", "", seconds.sum_with_norm, arrays.numel() * 12, "sum without",
      seconds.sum);
  for (const bool with_copy : {false, true}) {
    const std::string copy = with_copy ? "bf16" : "none";
    const auto& [sweep, update] = with_copy ? seconds.with_copy : seconds.without_copy;
    const int64_t bytes = swept_bytes(arrays.whole(with_copy));
    add("update", copy, update, bytes, "sweep", sweep);
    add("update and norm", copy, update + norm, bytes, "sweep", sweep);
  }
  return rows;
}

}  // namespace

std::vector<Row> bench_adam(const BenchOptions& options) {
  const Settings& settings = options.settings;
  const Cores cores = take_cores(0, 1, settings.bind);
  const int most =
      settings.threads > 0 ? static_cast<int>(settings.threads) : cores.share;
  std::vector<Row> rows;
  for (const int num_units : {1, 24}) {
    ThreadPool all(most);
    UpdateArrays arrays(num_units, options.size, all);
    for (const int num_threads : threads_to_try(most)) {
      ThreadPool threads(num_threads);
      const AdamSeconds seconds = time_all(arrays, threads, options.rounds);
      std::ranges::move(rows_of(seconds, arrays, num_units, num_threads),
                        std::back_inserter(rows));
    }
  }
  return rows;
}

}  // namespace zero::launcher
