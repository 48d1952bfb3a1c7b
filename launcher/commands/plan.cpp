#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/commands/verbs.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/plan/advice.h"
#include "launcher/plan/plan_page.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/mpirun.h"
#include "launcher/process/process_setup.h"
#include "launcher/run/console.h"
#include "launcher/run/new_file.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/setting_table.h"
#include "offload/affinity.h"
#include "offload/topology.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

struct Asked {
  const ModelFamily* family = nullptr;
  ModelShape shape;
};

// What is open of the settings is chosen by what the folder holds.
Asked asked_model(Settings& settings, const ModelFamilies& models) {
  if (settings.init_from.empty()) {
    refuse_adapter_alone(settings);
    const ModelFamily& family = *find_family(models, settings.model);
    return {&family, new_shape(family, settings)};
  }
  const ModelFolder folder = read_init_from(settings, models);
  const ModelFamily& family = *find_family(models, folder.family);
  ModelShape shape = shape_of(family, folder.config, settings);
  choose_frozen_dtype(settings, folder.dtype, shape.lora() != nullptr);
  return {&family, std::move(shape)};
}

Wish wish_for(const Settings& settings, const Asked& asked, const VerbCall& call,
              int num_ranks) {
  Wish wish{settings, asked.shape};
  wish.task = asked.family->task;
  fit_to_data(wish.shape, *asked.family, settings);
  wish.num_ranks = settings.ranks > 0 ? static_cast<int>(settings.ranks) : num_ranks;
  const bool oversubscribes = may_oversubscribe(call.environment);
  require_equal_hosts(settings, wish.num_ranks, oversubscribes);
  wish.ranks_on_node =
      settings.hosts.empty()
          ? std::min(wish.num_ranks, announced_ranks_on_node(call.environment))
          : ranks_on_fullest(settings.hosts, wish.num_ranks, oversubscribes);
  wish.gpu_room = room_on_gpu(settings, 0, most_on_a_gpu(settings, wish.ranks_on_node));
  if (wish.gpu_room == 0 && settings.device == "cuda") {
    throw Error(ExitCode::kUsage, "no GPU is here that tells how much memory it has",
                "--device cuda",
                "--device-memory SIZE plans for a GPU of that size; or --device cpu");
  }
  const int64_t starter = own_bytes("self");
  const int cores = static_cast<int>(current_affinity().size());
  set_threads(choose_threads(static_cast<int>(settings.threads), settings.deterministic,
                             threads_of_variable(call.environment),
                             std::max(1, cores / wish.ranks_on_node)));
  wish.program = measure_program(largest_product(wish));
  if (!call.announced) wish.program.starter = wish.num_ranks > 1 ? starter : 0;
  wish.room = settings.host_memory > 0 ? settings.host_memory
                                       : available_memory_bytes() + own_bytes("self");
  return wish;
}

PlanAnswer answer_for(const Wish& wish, const ModelFamily& family) {
  // Plans for many settings of few shapes: modules are made once for each shape in a row.
  std::unique_ptr<Model> model;
  ModelShape shape;
  const Planner plan = [&](const Wish& each) {
    if (!model || !(shape == each.shape)) model = make_deferred(family, each.shape);
    shape = each.shape;
    return make_plan(each, family, *model);
  };
  PlanAnswer answer;
  answer.wish = wish;
  answer.family = family.name;
  answer.plan = plan(wish);
  if (!answer.all_fits()) answer.nearest = nearest_fit(wish, plan);
  answer.largest = largest_fit(wish, plan);
  return answer;
}

// What fits on this node, as a file for --config. Nobody's file is written over.
void write_settings(const std::string& path, const PlanAnswer& answer,
                    const RawValues& given) {
  const bool is_advised = answer.nearest && answer.nearest->num_nodes == 1;
  if (!answer.all_fits() && !is_advised) {
    warn(path + " is not written: no settings fit on one node");
    return;
  }
  const Settings& settings =
      answer.all_fits() ? answer.wish.settings : answer.nearest->wish.settings;
  write_new_file(path, {"--write FILE", "the settings"}, [&](const WriteBytes& write) {
    write(to_toml(settings, left_to_run(settings, given)));
  });
}

// Will this configuration fit, and what would? kDone when it does, else kEnvironment.
int plan(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const int num_ranks = call.announced ? std::max(1, call.announced->size) : 1;
  Settings settings =
      read_settings(call.line, call.environment,
                    {.verb = "plan",
                     .num_ranks = num_ranks,
                     .ranks_from = call.announced ? call.announced->source : "",
                     .may_start_ranks = true,
                     .is_complete = false,
                     .may_begin = true,
                     .models = &call.models});
  const Asked asked = asked_model(settings, call.models);
  const PlanAnswer answer =
      answer_for(wish_for(settings, asked, call, num_ranks), *asked.family);
  if (!call.line.write.empty())
    write_settings(call.line.write, answer, given_values(call.line, call.environment));
  const std::string text =
      call.line.json ? to_json(answer).dump() + "\n" : to_page(answer);
  print_text(text, "the result");
  return static_cast<int>(answer.all_fits() ? ExitCode::kDone : ExitCode::kEnvironment);
}

}  // namespace

Verb plan_verb() {
  return {.name = "plan",
          .summary = "will it fit? memory by owner, what would fit, the largest model",
          .run = plan,
          .head = head_with_settings("plan", "[--config FILE]"),
          .lines = {kConfigLine,
                    {"--json", "print one JSON object instead of the table"},
                    {"--write FILE", "write the settings that fit as such a file"}},
          .settings = kAllSettings};
}

}  // namespace zero::launcher
