#include "launcher/run/loaded_model.h"

#include <nlohmann/json.hpp>

#include "checkpoint/reader.h"
#include "engine/comm/ranks.h"
#include "engine/engine.h"
#include "engine/init/deferred_init.h"
#include "engine/save_load.h"
#include "launcher/process/runner.h"
#include "launcher/process/world.h"
#include "launcher/run/memory_check.h"
#include "launcher/run/resume_plan.h"
#include "launcher/settings/engine_options.h"
#include "launcher/settings/model_shape.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

ModelShape shape_of(const Settings& settings, const ModelFamily& family, int64_t vocab) {
  ModelShape shape = chosen_shape(*find_preset(family, settings.preset), settings);
  shape.vocab = vocab;
  shape.dropout = 0;
  return shape;
}

Options options_for_use(const Settings& settings, const BatchPlan& batch,
                        const ModelShape& shape, const ModelFamily& family) {
  Options options =
      engine_options(settings, batch, shape.seq_len, family.init_rules(shape));
  options.inference = true;
  options.deterministic = false;  // this is about gradients; forward is the same anywhere
  options.accumulate = Accumulate::kModel;
  options.micro_batch = 0;
  return options;
}

}  // namespace

FoundCheckpoint find_saved_run(const std::string& from, Ranks& ranks) {
  std::string found;
  if (ranks.rank() == 0) {
    const std::string folder = find_checkpoint(from, "--from");
    found = json({folder, checkpoint::Reader(folder).manifest().config}).dump();
  }
  const json agreed = json::parse(ranks.broadcast(found));
  const std::string folder = agreed[0];
  return {folder, parse_saved_run(agreed[1], folder)};
}

LoadedModel::LoadedModel(const FoundCheckpoint& checkpoint, const Settings& settings,
                         const ModelFamilies& models, const World& world,
                         std::unique_ptr<Ranks> ranks) {
  const ModelFamily& family = *find_family(models, settings.model);
  shape_ = shape_of(settings, family, checkpoint.run.vocab);
  batch_ = {settings.micro_batch * ranks->size(), settings.micro_batch, ranks->size(),
            ranks->rank()};
  {
    DeferredInit without_memory;
    model_ = family.make(shape_);
  }
  const Options options = options_for_use(settings, batch_, shape_, family);
  RunPlan plan;
  plan.ranks_on_node = world.local_size();
  plan.engine = zero::plan(*model_->module(), options, world.size());
  require_memory(*ranks, world, plan, settings,
                 [] { return "more nodes, or --ignore-plan to start all the same"; });
  engine_ = std::make_unique<Engine>(model_->module(), options, std::move(ranks));
  LoadOptions weights_alone;
  weights_alone.with_optimizer = false;
  step_ = load_checkpoint(*engine_, checkpoint.folder, weights_alone).step;
  runner_ = std::make_unique<Runner>(*model_, *engine_);
}

LoadedModel::~LoadedModel() = default;

Ranks& LoadedModel::control() { return engine_->control(); }

}  // namespace zero::launcher
