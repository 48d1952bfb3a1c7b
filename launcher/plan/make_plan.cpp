#include "engine/engine.h"
#include "engine/errors.h"
#include "launcher/data/batches.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/runner.h"
#include "launcher/settings/derived.h"

namespace zero::launcher {

RunPlan make_plan(const Wish& wish, const ModelFamily& family, LanguageModel& model) {
  constexpr int64_t kMostParameters = int64_t{1} << 50;
  const Settings& settings = wish.settings;
  const ModelShape& shape = wish.shape;
  RunPlan plan;
  plan.shape = shape;
  plan.num_ranks = wish.num_ranks;
  plan.ranks_on_node = wish.ranks_on_node;
  plan.on_gpu = wish.gpu_room > 0;
  plan.num_parameters = count_parameters(model);
  if (plan.num_parameters > kMostParameters)
    throw Error(ExitCode::kUsage, "no machine holds a model of over 10^15 parameters", "",
                "smaller --layers, --dim, --ffn-dim or --vocab");
  const BatchPlan batch{settings.global_batch, settings.micro_batch, wish.num_ranks, 0};
  plan.engine = zero::plan(
      *model.module(), engine_options(settings, batch, shape, family), wish.num_ranks);
  if (!family.activation_bytes) return plan;
  const PassShape pass = pass_shape(settings, wish.num_ranks);
  ModelShape other = shape;
  other.loss_chunk = other_loss_chunk(shape.loss_chunk);
  const ActivationBytes activations = family.activation_bytes(shape, pass);
  plan.activations = activations.computed;
  plan.offloaded = activations.offloaded;
  plan.other_activations = family.activation_bytes(other, pass).computed;
  return plan;
}

}  // namespace zero::launcher
