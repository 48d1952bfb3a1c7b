#include <ATen/core/Tensor.h>

#include <cmath>
#include <span>
#include <vector>

#include "checkpoint/slices.h"
#include "engine/init/fill_shards.h"
#include "engine/save/step_zero.h"
#include "engine/unit/model_scan.h"
#include "engine/watch/activity.h"
#include "offload/exact_sum.h"
#include "offload/thread_pool.h"
#include "zero/errors.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;

// A parameter's values while they are written.
struct Making {
  SetValues set;
  ValueSums sums;
};

// `entry`: of the report; null: there is none.
Slice slice_of(const ScannedModel& model, size_t param, const Options& options,
               InitFunctions& functions, ThreadPool& threads, InitEntry* entry) {
  const ParamDescription& of = model.params[param];
  const int64_t numel = model.tensors[param].numel();
  Slice slice{{Kind::kParam, of.fqn, DType::kFp32, of.shape}, 0, numel};
  // Made when its first element is asked for, and gone with its last.
  auto making = std::make_shared<Making>();
  const auto begin_values = [&, param, entry, making, fqn = of.fqn] {
    FirstValues values = first_values(model, param, options, functions);
    making->set = std::move(values.set);
    if (entry)
      *entry = {.fqn = fqn, .who = values.who, .distribution = values.distribution};
  };
  if (entry && numel == 0) begin_values();
  slice.fetch = [&, begin_values, numel, entry, making, fqn = of.fqn](
                    int64_t first, int64_t count, void* to) {
    Activity::here().sign();
    if (!making->set) begin_values();
    const std::span<float> values(static_cast<float*>(to), static_cast<size_t>(count));
    threads.parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
      making->set(first + begin, values.subspan(begin, end - begin));
    });
    if (!std::isfinite(max_abs(values.data(), count)))
      reject("first values that are not finite", fqn,
             "look at what its constructor, function or rule makes");
    if (entry) making->sums.add(first, values);
    if (first + count < numel) return;
    if (entry) making->sums.tell(*entry);
    *making = {};
  };
  return slice;
}

}  // namespace

std::string save_seed(torch::nn::Module& model, const Options& options,
                      const std::string& run, const SavedState& state, bool replace,
                      std::vector<InitEntry>* report) {
  const ScannedModel scanned = scan_model(model, options.ignored);
  if (options.post_init)
    reject("post_init needs an engine, and a seed is made without", "save_seed()",
           "Engine and save_checkpoint() instead");
  name_deferred(scanned);
  InitFunctions functions(scanned, options, /*are_called=*/true);
  require_known(scanned, options, functions);
  const std::vector<InitEntry> of_buffers =
      fill_buffers(scanned, options, functions, *make_one_rank());
  ThreadPool threads(options.adam_threads);
  std::vector<InitEntry> entries(options.init_report ? scanned.params.size() : 0);
  std::vector<Slice> slices;
  for (size_t i = 0; i < scanned.params.size(); ++i)
    slices.push_back(slice_of(scanned, i, options, functions, threads,
                              entries.empty() ? nullptr : &entries[i]));
  Activity::Stretch stretch("saving first values");
  stretch.expect(bytes_of(slices));
  const std::string path = write_step_zero(scanned, std::move(slices),
                                           whole_tensors(scanned), run, state, replace);
  if (report) {
    *report = std::move(entries);
    report->insert(report->end(), of_buffers.begin(), of_buffers.end());
  }
  return path;
}

}  // namespace zero
