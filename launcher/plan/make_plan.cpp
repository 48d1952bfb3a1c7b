#include "engine/comm/choose_gpu.h"
#include "engine/options/check_options.h"
#include "launcher/data/batches.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/kernel_caches.h"
#include "launcher/run/runner.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/values.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/lora.h"

namespace zero::launcher {
namespace {

// Activations are estimated, and memory has gaps: so much of a GPU is left free where a
// choice is ours.
constexpr double kPlannedShare = 0.9;

BatchPlan batch_of(const Wish& wish) {
  return {wish.settings.global_batch, wish.settings.micro_batch, wish.num_ranks, 0};
}

Options options_of(const Wish& wish, const ModelFamily& family) {
  return engine_options(wish.settings, batch_of(wish), wish.shape, family);
}

// Found with models of 2 to 96 layers. The kernel describes 512 bytes by one.
int64_t object_bytes(const ModelShape& shape, int64_t host_bytes) {
  constexpr int64_t kOfAnyRun = 14 << 20, kOfALayer = 128 << 10, kDescribed = 512;
  return kOfAnyRun + kOfALayer * shape.layers() + host_bytes / kDescribed;
}

// See AdaptedFunction (engine/layers/torch/adapted_linear.cpp): the rank's numbers and a
// mask of bytes are kept, which a CPU widens where it is used. Beside bf16, GPUs have
// factors of fp32 as three terms; beside fp16 they make the other factor fp32.
void add_adapters(PassShape& pass, const std::string& dtype,
                  const torch::nn::Module& model) {
  const int64_t dropping = (pass.on_gpu ? 1 : 2) * pass.element_bytes;
  for (const LoraTarget& layer : lora_targets(model)) {
    if (!layer.has_adapter()) continue;
    const int64_t dropped = layer.has_dropout ? layer.in : 0;
    const int64_t of_rank = pass.on_gpu && dtype == "bf16" ? 40 : 8;
    const int64_t widened =
        pass.on_gpu && dtype == "fp16" ? 8 * std::max(layer.in, layer.out) : 0;
    pass.kept_by_adapters += 4 * layer.rank + dropped;
    pass.made_by_adapter = std::max(pass.made_by_adapter,
                                    of_rank * layer.rank + widened + dropping * dropped);
  }
}

// With settings that leave nothing open.
RunPlan plan_as_told(const Wish& wish, const ModelFamily& family, Model& model) {
  const ModelShape& shape = wish.shape;
  RunPlan plan;
  plan.settings = wish.settings;
  plan.shape = shape;
  plan.num_ranks = wish.num_ranks;
  plan.ranks_on_node = wish.ranks_on_node;
  plan.on_gpu = wish.gpu_room > 0;
  plan.num_parameters = count_parameters(model);
  plan.engine = zero::plan(*model.module(), options_of(wish, family), wish.num_ranks,
                           wish.ranks_on_node);
  PassShape pass = pass_shape(wish.settings, wish.num_ranks);
  pass.on_gpu = plan.on_gpu;
  add_adapters(pass, wish.settings.dtype, *model.module());
  plan.program = wish.program;
  if (!plan.on_gpu)
    plan.kernels = kernel_cache_bytes(
        pass.element_bytes, family.has_new_shapes || wish.settings.sample_every > 0);
  plan.objects = object_bytes(shape, plan.engine_host_bytes());
  if (!family.activation_bytes) return plan;
  ModelShape other = shape;
  other.loss_chunk = other_loss_chunk(shape.loss_chunk);
  const ActivationBytes activations = family.activation_bytes(shape, pass);
  plan.activations = activations.computed;
  plan.offloaded = activations.offloaded;
  plan.other_activations = family.activation_bytes(other, pass).computed;
  return plan;
}

}  // namespace

bool fits_on_gpu(const RunPlan& plan, int64_t gpu_room) {
  return plan.activations >= 0 && static_cast<double>(plan.gpu_bytes()) <=
                                      kPlannedShare * static_cast<double>(gpu_room);
}

namespace {

// Those of --freeze come first.
std::vector<std::pair<std::string, GroupShare>> groups_of(const Wish& wish,
                                                          const ModelFamily& family,
                                                          Model& model) {
  std::vector<std::string> words;
  for (const std::string& glob : wish.settings.freeze) words.push_back(glob + ": freeze");
  for (const std::string& rule : wish.settings.group) words.push_back(rule);
  std::vector<std::pair<std::string, GroupShare>> groups;
  if (words.empty()) return groups;
  words.emplace_back("all others");
  const std::vector<GroupShare> shares =
      plan_groups(*model.module(), options_of(wish, family));
  for (size_t i = 0; i < words.size(); ++i) groups.emplace_back(words[i], shares[i]);
  return groups;
}

}  // namespace

RunPlan make_plan(const Wish& wish, const ModelFamily& family, Model& model) {
  constexpr int64_t kMostParameters = int64_t{1} << 50;
  if (count_parameters(model) > kMostParameters)
    throw Error(ExitCode::kUsage, "no machine holds a model of over 10^15 parameters", "",
                "smaller --layers, --dim, --ffn-dim or --vocab");
  Wish told = wish;
  const Options asked = options_of(wish, family);
  const UnitMemory where =
      expected_unit_memory(asked, wish.num_ranks, wish.ranks_on_node);
  const bool may_stay = wish.gpu_room > 0 && may_keep_shards(where, wish.num_ranks);
  const MayStay what{may_stay, may_stay && gpus_update_with(asked.optimizer.kind)};
  const auto fits = [&](const Settings& settings) {
    told.settings = settings;
    const RunPlan plan = plan_as_told(told, family, model);
    return HasRoom{fits_on_gpu(plan, wish.gpu_room), plan.node_bytes() <= wish.room};
  };
  const bool has_rows = family.has_batched_units && !wish.settings.deterministic;
  const auto plan_with = [&](const std::string& prefetch) {
    Settings settings = wish.settings;
    settings.prefetch = prefetch;
    told.settings =
        choose_passes(settings, what, has_rows, num_passes(batch_of(wish)), fits);
    return plan_as_told(told, family, model);
  };
  const bool may_choose = wish.settings.prefetch == "auto";
  RunPlan plan = plan_with(may_choose ? "1" : wish.settings.prefetch);
  if (may_choose && wish.room > 0 && !launcher::fits(plan, wish)) plan = plan_with("0");
  if (told.settings.speculate == "auto") {
    const bool may = plan.on_gpu && may_speculate(told.settings);
    const int64_t room = may ? room_for_drafts(plan, wish.room) : 0;
    if (room > 0) {
      told.settings.speculate = format_size(room);
      plan = plan_as_told(told, family, model);
    }
    const int64_t taken = plan.draft_bytes();
    plan.settings.speculate = told.settings.speculate =
        taken > 0 ? format_size(taken) : "off";
  }
  plan.groups = groups_of(wish, family, model);
  plan.step = zero::plan_traffic(*model.module(), options_of(told, family),
                                 wish.num_ranks, wish.ranks_on_node);
  return plan;
}

}  // namespace zero::launcher
