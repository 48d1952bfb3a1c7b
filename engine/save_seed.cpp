#include "engine/save_seed.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/open_run.h"
#include "checkpoint/writer.h"
#include "engine/activity.h"
#include "engine/comm/ranks.h"
#include "engine/compute_type.h"
#include "engine/init/fill_shards.h"
#include "engine/model_scan.h"
#include "engine/save_load.h"
#include "offload/thread_pool.h"

namespace zero {
namespace {

using checkpoint::Kind;
using checkpoint::Slice;

Slice slice_of(const ScannedModel& model, size_t param, const Options& options,
               ThreadPool& threads) {
  const ParamDescription& of = model.params[param];
  const int64_t numel = model.tensors[param].numel();
  Slice slice{{Kind::kParam, of.fqn, DType::kFp32, of.shape}, 0, numel};
  const FirstValues make = first_values(model, param, options);
  slice.fetch = [make, &threads](int64_t first, int64_t count, void* to) {
    Activity::sign_here();
    const std::span<float> values(static_cast<float*>(to), static_cast<size_t>(count));
    threads.parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
      make(first + begin, values.subspan(begin, end - begin));
    });
  };
  return slice;
}

// Those that an engine would save.
void add_buffers(const std::vector<at::Tensor>& buffers,
                 const std::vector<std::string>& fqns, std::vector<Slice>& slices) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::optional<DType> dtype = dtype_of(buffers[i].scalar_type());
    if (!dtype || !buffers[i].is_contiguous()) continue;
    slices.push_back({{Kind::kBuffer, fqns[i], *dtype, buffers[i].sizes().vec()},
                      0,
                      buffers[i].numel(),
                      buffers[i].const_data_ptr()});
  }
}

checkpoint::StepInfo info_of(const ScannedModel& model, const SavedState& state) {
  checkpoint::StepInfo info;
  info.config = state.config;
  info.position = state.position;
  for (const ParamDescription& param : model.params) {
    for (size_t i = 1; i < param.names.size(); ++i)
      info.aliases[param.names[i]] = param.fqn;
  }
  return info;
}

}  // namespace

std::string save_seed(torch::nn::Module& model, const Options& options,
                      const std::string& run, const SavedState& state, bool replace) {
  const Activity::Stretch stretch("saving first values");
  const ScannedModel scanned = scan_model(model);
  fill_buffers(scanned, options, *make_one_rank());
  ThreadPool threads(options.adam_threads);
  std::vector<Slice> slices;
  for (size_t i = 0; i < scanned.params.size(); ++i)
    slices.push_back(slice_of(scanned, i, options, threads));
  add_buffers(scanned.buffers, scanned.buffer_fqns, slices);

  checkpoint::make_run_folder(run);
  const checkpoint::OpenRun open(run);
  const auto existing =
      replace ? checkpoint::Existing::kReplace : checkpoint::Existing::kRefuse;
  const std::string temporary = checkpoint::prepare(open, 0, existing);
  try {
    return checkpoint::commit(open, temporary,
                              {write_shard(temporary, 0, 1, std::move(slices))},
                              info_of(scanned, state), existing);
  } catch (...) {
    checkpoint::discard(open, temporary);
    throw;
  }
}

}  // namespace zero
