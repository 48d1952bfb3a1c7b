#include "launcher/plan/make_plan.h"

#include "engine/errors.h"
#include "launcher/data/batches.h"
#include "launcher/process/runner.h"
#include "launcher/settings/engine_options.h"

namespace zero::launcher {
namespace {

constexpr int64_t kMostParameters = int64_t{1} << 50;

}  // namespace

RunPlan make_plan(const Settings& settings, const ModelFamily& family,
                  const ModelShape& shape, LanguageModel& model, int num_ranks,
                  int ranks_on_node) {
  RunPlan plan;
  plan.shape = shape;
  plan.num_ranks = num_ranks;
  plan.ranks_on_node = ranks_on_node;
  const BatchPlan batch{settings.global_batch, settings.micro_batch, num_ranks, 0};
  plan.num_parameters = count_parameters(model);
  if (plan.num_parameters > kMostParameters)
    throw Error(ExitCode::kUsage, "no machine holds a model of over 10^15 parameters", "",
                "smaller --layers, --dim, --ffn-dim or --vocab");
  plan.engine =
      zero::plan(*model.module(),
                 engine_options(settings, batch, shape.seq_len, family.init_rules(shape)),
                 num_ranks);
  if (family.activation_bytes)
    plan.activations = family.activation_bytes(shape, pass_shape(settings, num_ranks));
  return plan;
}

}  // namespace zero::launcher
