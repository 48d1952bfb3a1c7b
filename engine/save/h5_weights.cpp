#include "zero/h5_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/h5_names.h"
#include "checkpoint/h5_source.h"
#include "engine/device/torch/compute_type.h"
#include "engine/init/fill_shards.h"
#include "engine/save/sources.h"
#include "engine/save/step_zero.h"
#include "engine/unit/model_scan.h"
#include "engine/watch/activity.h"
#include "offload/exact_sum.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero {

using checkpoint::CheckpointError;
using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::TensorType;

namespace {

void require_used(const std::vector<size_t>& unused, const H5WeightNames& names,
                  const std::string& file) {
  std::string text;
  for (const size_t i : unused)
    text += (text.empty() ? "" : ", ") + names.renames[i].first + "=" +
            names.renames[i].second;
  if (text.empty()) return;
  reject("no name of a dataset is left for: " + text, file,
         "globs of the names that are there, the more special ones first");
}

}  // namespace

struct H5Weights::Impl {
  ScannedModel model;
  const Options options;
  checkpoint::H5Source source;
  std::map<std::string, std::string> paths;   // of datasets, by name
  std::vector<size_t> whole_params, buffers;  // of the model's buffers
  Sources sources;

  Impl(torch::nn::Module& of, const Options& with, const std::string& file)
      : model(scan_model(of, with.ignored)), options(with), source(file) {
    name_deferred(model);
    for (size_t i = 0; i < model.buffers.size(); ++i) {
      if (stored_whole(model, i))
        (model.ignored_of(i) ? whole_params : buffers).push_back(i);
    }
  }

  const TensorType& dataset(const std::string& name) const {
    return source.datasets().at(paths.at(name));
  }

  WantedTensor wanted(size_t buffer) const {
    const checkpoint::StoredTensor stored = *stored_whole(model, buffer);
    const IgnoredParam* param = model.ignored_of(buffer);
    return {param ? param->names : std::vector{stored.fqn}, stored.shape, stored.dtype};
  }

  void find(const SafetensorsNames& names) {
    std::vector<WantedTensor> wanted_params, wanted_buffers;
    for (const ParamDescription& param : model.params)
      wanted_params.push_back({param.names, param.shape});
    for (const size_t i : whole_params) wanted_params.push_back(wanted(i));
    for (const size_t i : buffers) wanted_buffers.push_back(wanted(i));
    // Our own files show a scalar as (1).
    std::set<std::string> scalars;
    for (const auto* all : {&wanted_params, &wanted_buffers})
      for (const auto& [fqns, shape, dtype] : *all)
        if (shape.empty()) scalars.insert(fqns.begin(), fqns.end());
    OfferedTensors offered;
    const auto counts = counts_by(names);
    for (const auto& [name, path] : paths) {
      if (!counts(name)) continue;
      const auto& [dtype, shape] = dataset(name);
      const bool is_scalar = scalars.contains(name) && shape == checkpoint::Shape{1};
      offered[name] = {dtype, is_scalar ? checkpoint::Shape() : shape};
    }
    sources = find_sources(wanted_params, wanted_buffers, offered, names, source.path(),
                           "the weights of this model: its flags, and --map 'GLOB=NAME' "
                           "for other names",
                           /*most=*/std::numeric_limits<size_t>::max());
    for (size_t i = 0; i < sources.of_param.size(); ++i)
      require_equal(source.path(), sources.of_param[i], 0,
                    checkpoint::checked_numel(wanted_params[i].shape).value(),
                    "a model that does not tie them, or a file with one of them",
                    [&](const std::string& name, int64_t begin, std::span<float> out) {
                      source.read(paths.at(name), begin, out);
                    });
  }

  void read(const std::string& name, int64_t begin, std::span<float> out) {
    Activity::here().sign();
    source.read(paths.at(name), begin, out);
    require_finite(name,
                   std::isfinite(max_abs(out.data(), static_cast<int64_t>(out.size()))),
                   "fp32");
  }

  void require_finite(const std::string& name, bool is_finite, const char* type) const {
    if (is_finite) return;
    throw CheckpointError(source.path(), paths.at(name),
                          text_of("it has values that are not finite in ", type),
                          "look at what wrote it");
  }

  Slice slice_of(size_t param) {
    const ParamDescription& of = model.params[param];
    Slice slice{
        {Kind::kParam, of.fqn, DType::kFp32, of.shape}, 0, model.tensors[param].numel()};
    slice.fetch = [this, name = sources.of_param[param].front()](
                      int64_t first, int64_t count, void* to) {
      read(name, first, {static_cast<float*>(to), static_cast<size_t>(count)});
    };
    return slice;
  }

  // As it is stored there, then of the model's type.
  at::Tensor value_of(const std::string& name, DType dtype) {
    const TensorType& found = dataset(name);
    const at::Tensor value = at::empty(found.shape, scalar_type(found.dtype));
    source.read_stored(paths.at(name), 0, value.numel(), value.mutable_data_ptr());
    const at::Tensor converted = value.to(scalar_type(dtype)).contiguous();
    require_finite(name, converted.isfinite().all().item<bool>(), name_of(dtype));
    return converted;
  }

  bool is_rounded(const std::string& name, DType dtype = DType::kFp32) const {
    return !name.empty() && dataset(name).dtype == DType::kFp64 && dtype != DType::kFp64;
  }

  std::vector<WholeTensor> read_whole() {
    const bool has_buffers = !sources.of_buffer.empty();
    InitFunctions functions(model, options, /*are_called=*/!has_buffers);
    fill_buffers(model, options, functions, *make_one_rank(),
                 has_buffers ? BuffersAre::kReplaced : BuffersAre::kFirstValues);
    std::vector<WholeTensor> whole = whole_tensors(model);
    size_t num_params = model.params.size(), num_buffers = 0;
    for (auto& [tensor, values] : whole) {
      if (tensor.kind == Kind::kParam)
        values = value_of(sources.of_param[num_params++].front(), tensor.dtype);
      else if (has_buffers)
        values = value_of(sources.of_buffer[num_buffers++], tensor.dtype);
    }
    return whole;
  }
};

H5Weights::H5Weights(torch::nn::Module& model, const Options& options,
                     const std::string& file, const H5WeightNames& names)
    : impl_(std::make_unique<Impl>(model, options, file)) {
  const checkpoint::H5Names named = name_datasets(impl_->source, names.renames);
  require_used(named.unused, names, file);
  impl_->paths = named.paths;
  impl_->find(names.others);
  unread_ = named.ignored;
  const std::vector<std::string>& dead = impl_->sources.dead;
  unread_.insert(unread_.end(), dead.begin(), dead.end());
  const Sources& sources = impl_->sources;
  for (const std::vector<std::string>& of_param : sources.of_param)
    if (impl_->is_rounded(of_param.front())) rounded_.push_back(of_param.front());
  for (size_t i = 0; i < sources.of_buffer.size(); ++i)
    if (impl_->is_rounded(sources.of_buffer[i], impl_->wanted(impl_->buffers[i]).dtype))
      rounded_.push_back(sources.of_buffer[i]);
}

H5Weights::~H5Weights() = default;

int64_t H5Weights::num_tensors() const {
  return static_cast<int64_t>(impl_->sources.of_param.size() +
                              impl_->sources.of_buffer.size());
}

std::string H5Weights::save(const std::string& run, const SavedState& state,
                            bool replace) {
  std::vector<Slice> slices;
  for (size_t i = 0; i < impl_->model.params.size(); ++i)
    slices.push_back(impl_->slice_of(i));
  Activity::Stretch stretch("importing " + impl_->source.path());
  stretch.expect(checkpoint::bytes_of(slices));
  return write_step_zero(impl_->model, std::move(slices), impl_->read_whole(), run, state,
                         replace);
}

}  // namespace zero
