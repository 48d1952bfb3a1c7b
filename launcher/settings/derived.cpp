#include "launcher/settings/derived.h"

#include <algorithm>
#include <limits>
#include <string>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

Options told_options(const Settings& settings) {
  Options options;
  for (const Setting& setting : setting_table())
    if (setting.tell) setting.tell(settings, options);
  if (settings.steps == 0) {  // the data will tell
    options.schedule.total_steps = std::numeric_limits<int64_t>::max();
    options.schedule.warmup_steps = std::max<int64_t>(0, settings.warmup_steps);
  }
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
