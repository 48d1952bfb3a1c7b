#include "launcher/settings/derived.h"

#include <string>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

Options told_options(const Settings& settings) {
  Options options;
  for (const Setting& setting : setting_table())
    if (setting.tell) setting.tell(settings, options);
  if (options.accumulate == Accumulate::kUnit) options.micro_batch = settings.micro_batch;
  return options;
}

Options engine_options(const Settings& settings, const BatchPlan& batch,
                       const ModelShape& shape, const ModelFamily& family) {
  Options options = told_options(settings);
  const bool is_unit_major = options.accumulate == Accumulate::kUnit;
  options.init = family.init_rules(shape);
  options.nominal_targets = static_cast<double>(settings.micro_batch * shape.seq_len);
  if (!options.trace_comm.empty() && batch.ranks > 1)
    options.trace_comm += '.' + std::to_string(batch.rank);
  options.micro_batches_per_rank = is_unit_major ? 1 : num_passes(batch);
  return options;
}

}  // namespace zero::launcher
