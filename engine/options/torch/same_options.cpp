#include "base/hash.h"
#include "engine/comm/agreement.h"
#include "engine/options/check_options.h"
#include "engine/unit/model_scan.h"
#include "zero/deferred_init.h"

namespace zero {
namespace {

uint64_t hash_of_lines(const Lines& lines) {
  const std::string text = lines.text();
  return hash_of(text.data(), text.size());
}

// Units, names, shapes: one number, as the list may be long. And which of them have
// memory: other sources are for ranks that differ there, or say so themselves.
void add_model(Lines& lines, const Options& options, const ScannedModel& model) {
  Lines all, deferred;
  for (const UnitDescription& unit : model.units) all.add(unit.fqn, unit.type);
  for (const ParamDescription& param : model.params) {
    for (const std::string& name : param.names) all.add(name, param.requires_grad);
    for (const int64_t size : param.shape) all.add("", size);
  }
  for (const std::string& fqn : model.buffer_fqns) all.add(fqn, "");
  lines.add("the model's parameters", hash_of_lines(all));
  for (const at::Tensor& tensor : model.tensors)
    deferred.add("", options.source == Source::kInit && is_deferred(tensor));
  lines.add("which parameters zero::DeferredInit made", hash_of_lines(deferred));
}

}  // namespace

void require_same_options(const Options& options, const ScannedModel& model,
                          Ranks& ranks) {
  Lines lines = shared_lines(options);
  add_model(lines, options, model);
  require_same_lines(
      lines, "ranks were given different options",
      "give every rank the same; only threads, traces and chaos may differ", ranks);
}

void require_same_start(const ScannedModel& model, const UnitPlan& plan, Ranks& ranks) {
  if (ranks.size() == 1) return;
  Lines lines, parts;
  for (const PlannedPart& part : plan.parts) {
    parts.add(part.tag, part.unit, part.is_frozen, part.dtype, part.layout.numel);
    for (const int param : part.params) parts.add(model.params[param].fqn, param);
  }
  lines.add("the plan", hash_of_lines(parts));
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    const at::Tensor values = model.buffers[i].cpu().contiguous();
    lines.add("buffer " + model.buffer_fqns[i],
              hash_of(values.const_data_ptr(), values.nbytes()));
  }
  require_same_lines(lines, "ranks would start differently",
                     "the same program and the same model on every rank", ranks);
}

}  // namespace zero
