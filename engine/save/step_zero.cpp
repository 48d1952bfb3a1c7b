#include "engine/save/step_zero.h"

#include "checkpoint/commit.h"
#include "checkpoint/open_run.h"
#include "checkpoint/writer.h"
#include "engine/device/torch/compute_type.h"
#include "engine/save/saved_arrays.h"

namespace zero {
namespace {

checkpoint::StepInfo info_of(const ScannedModel& model, const SavedState& state) {
  checkpoint::StepInfo info;
  info.config = state.config;
  info.position = state.position;
  for (const ParamDescription& param : model.params) {
    for (size_t i = 1; i < param.names.size(); ++i)
      info.aliases[param.names[i]] = param.fqn;
  }
  for (const IgnoredParam& param : model.ignored) {
    for (size_t i = 1; i < param.names.size(); ++i)
      info.aliases[param.names[i]] = param.names.front();
  }
  return info;
}

}  // namespace

std::optional<checkpoint::StoredTensor> stored_whole(const ScannedModel& model,
                                                     size_t buffer) {
  auto view = buffer_view(model.buffer_fqns[buffer], model.buffers[buffer]);
  if (!view) return std::nullopt;
  view->is_parameter = model.ignored_of(buffer) != nullptr;
  return tensor_of(*view);
}

std::vector<WholeTensor> whole_tensors(const ScannedModel& model) {
  std::vector<WholeTensor> whole;
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    const auto stored = stored_whole(model, i);
    if (!stored) continue;
    const at::Tensor values = stored_form(model.buffers[i].detach());
    whole.push_back({*stored, values.to(scalar_type(stored->dtype)).contiguous()});
  }
  return whole;
}

std::string write_step_zero(const ScannedModel& model,
                            std::vector<checkpoint::Slice> params,
                            const std::vector<WholeTensor>& whole, const std::string& run,
                            const SavedState& state, bool replace) {
  std::vector<checkpoint::Slice> slices = std::move(params);
  for (const auto& [tensor, values] : whole)
    slices.push_back({tensor, 0, values.numel(), values.const_data_ptr()});
  checkpoint::make_run_folder(run);
  const checkpoint::OpenRun open(run);
  const auto existing =
      replace ? checkpoint::Existing::kReplace : checkpoint::Existing::kRefuse;
  std::string temporary = checkpoint::prepare(open, 0, existing);
  try {
    const checkpoint::ShardReport written = write_shard(temporary, 0, 1, slices);
    return checkpoint::commit(open, temporary, {written}, info_of(model, state),
                              existing);
  } catch (...) {
    checkpoint::discard(open, temporary);
    throw;
  }
}

}  // namespace zero
