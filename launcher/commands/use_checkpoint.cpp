#include "launcher/commands/use_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoint/file.h"
#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "engine/comm/choose_gpu.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/inference/text_reader.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/lines.h"
#include "launcher/run/memory_check.h"
#include "launcher/run/model_weights.h"
#include "launcher/run/resume.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/lora_setting.h"
#include "launcher/settings/same_settings.h"
#include "launcher/settings/values.h"
#include "launcher/text/python_child.h"
#include "launcher/text/text_options.h"
#include "launcher/text/tokenizer.h"
#include "zero/engine.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// Names of classes, as Hugging Face keeps them; none: the config has none.
std::vector<std::string> classes_in(const json& source) {
  std::vector<std::string> names;
  const auto labels = source.find("id2label");
  if (labels == source.end() || !labels->is_object()) return names;
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string()) return {};
    names.push_back(*name);
  }
  return names;
}

// As if a run had just started from it.
SavedRun run_from(const ModelFolder& model, const ModelFamilies& models) {
  SavedRun run;
  run.settings.model = model.family;
  run.model = model.config;
  const ModelFamily& family = *find_family(models, model.family);
  run.vocab = model.config.at(family.keys.vocab).get<int64_t>();
  if (family.task == Task::kImages) run.classes = classes_in(model.source);
  run.is_text = is_text(family, run.vocab);
  return run;
}

// The step's folder `from`, or the newest one of a run's folder, or a model's folder;
// collective. Rank 0 alone looks, as a run may just be saving. Throws Error(kUsage) that
// names --from.
FoundCheckpoint find_saved_run(const std::string& from, const ModelFamilies& models,
                               Ranks& ranks) {
  std::string found;
  if (ranks.rank() == 0) {
    if (is_model_folder(from)) {
      const SavedRun run = run_from(read_model_folder(from, models, "--from"), models);
      found = json({from, to_text(run), true}).dump();
    } else {
      const std::string folder = find_and_tell(
          from, "--from",
          "a run's folder, one of its steps, or a model's folder of Hugging Face");
      use_step(folder, [&] {
        const checkpoint::Reader reader(folder);
        found = json({folder, reader.manifest().config, false}).dump();
      });
    }
  }
  const json agreed = json::parse(ranks.broadcast(found));
  const std::string folder = agreed[0];
  return {folder, parse_saved_run(agreed[1], folder), agreed[2]};
}

Options options_for_use(const LoadedModel& loaded, const Settings& settings) {
  Options options = engine_options(settings, loaded.batch, loaded.shape, *loaded.family);
  options.source = Source::kCheckpoint;
  options.inference = true;
  options.deterministic = false;  // this is about gradients; forward is the same anywhere
  options.accumulate = Accumulate::kModel;
  options.micro_batch = 0;
  // What belonged to the type that the run computed in.
  if (options.dtype != DType::kFp16) options.loss_scale = {};
  if (options.dtype != DType::kBf16) options.master = MasterStorage::kFp32;
  // Nobody asks for values that are not computed with. Split ones round ties otherwise.
  options.frozen_dtype =
      options.master == MasterStorage::kSplit ? DType::kFp32 : options.dtype;
  return options;
}

// Of a model that reads each token once: a few tokens go through it at a time, and the
// logits of one of each row. Of others a whole text.
void plan_texts(const LoadedModel& loaded, PassShape pass, RunPlan& plan) {
  const ModelFamily& family = *loaded.family;
  ModelShape shape = loaded.shape;
  const auto [rows, tokens] = loaded.texts;
  shape.loss_chunk = rows;
  shape.seq_len = std::max(rows, tokens);
  pass.rows = pass.rows_in_units = pass.recompute_every = 1;
  int64_t mask = 0;  // of tokens that are read behind others
  if (family.key_value_bytes) {
    const int64_t at_once = std::max(rows, kTokensReadAtOnce);
    shape.seq_len = std::min(rows * tokens, at_once);
    plan.key_values =
        family.key_value_bytes(loaded.shape, loaded.texts, pass.element_bytes);
    if (rows * tokens > at_once)
      mask = at_once * tokens * pass.element_bytes *
             std::max<int64_t>(1, shape.heads() / std::max<int64_t>(1, shape.kv_heads()));
  }
  if (family.activation_bytes)
    plan.activations = family.activation_bytes(shape, pass).computed + mask;
}

// What the GPU keeps of it, where that is left open, is what fits beside the activations
// of a training pass, of which a forward has fewer.
RunPlan plan_for_use(const LoadedModel& loaded, const Wish& wish) {
  const ModelFamily& family = *loaded.family;
  const auto plan_with = [&](const Settings& settings) {
    RunPlan plan;
    plan.ranks_on_node = wish.ranks_on_node;
    plan.on_gpu = wish.gpu_room > 0;
    plan.is_forward_alone = true;
    plan.program = wish.program;
    plan.settings = settings;
    plan.settings.grad_sums = "host";
    plan.settings.speculate = "off";
    plan.engine = zero::plan(*loaded.model->module(), options_for_use(loaded, settings),
                             wish.num_ranks, wish.ranks_on_node);
    PassShape pass = pass_shape(settings, wish.num_ranks);
    pass.rows = settings.micro_batch;
    if (loaded.texts.rows > 0) {
      plan_texts(loaded, pass, plan);
    } else if (family.activation_bytes) {
      plan.activations = family.activation_bytes(loaded.shape, pass).computed;
    }
    return plan;
  };
  const Options asked = options_for_use(loaded, loaded.settings);
  const bool may_stay =
      wish.gpu_room > 0 &&
      may_keep_shards(expected_unit_memory(asked, wish.num_ranks), wish.num_ranks);
  const MayStay weights_alone{may_stay, false};
  return plan_with(choose_offload(loaded.settings, weights_alone, [&](const Settings& s) {
    return HasRoom{fits_on_gpu(plan_with(s), wish.gpu_room), true};
  }));
}

std::string memory_text(const RunPlan& plan) {
  std::string text =
      fmt::format("memory of a rank: engine {}, keys and values {}",
                  short_bytes(plan.engine_bytes()), short_bytes(plan.key_values));
  if (plan.activations >= 0)
    text += ", activations about " + short_bytes(plan.activations);
  return plan.on_gpu ? text + "; on a GPU, " + describe_offload(plan) : text;
}

// Those of --adapter, as rank 0 reads them. Collective.
void add_asked_adapter(LoadedModel& loaded, Ranks& ranks) {
  const std::string& folder = loaded.settings.adapter;
  if (folder.empty()) return;
  std::string found;
  Agreement(ranks, "the adapters of " + folder).run([&] {
    if (ranks.rank() == 0)
      found = to_json(read_adapter(folder, "--adapter", *loaded.family)).dump();
  });
  add_adapter(loaded.checkpoint.run.model,
              lora_from_json(json::parse(ranks.broadcast(found)), folder), "--adapter");
}

// What is known of the model before it is loaded.
void describe(LoadedModel& loaded, const World& world, Ranks& ranks) {
  const ModelFamily& family = *loaded.family;
  add_asked_adapter(loaded, ranks);
  loaded.shape = shape_of_run(family, loaded.checkpoint.run, loaded.settings);
  loaded.shape.dropout = 0;
  require_loss(loaded.shape);
  require_image_size(loaded.shape, loaded.checkpoint.folder);
  loaded.batch = one_pass(loaded.settings.micro_batch, ranks.size(), ranks.rank());
  loaded.is_first_of_host = world.local_rank() == 0;
}

// Collective.
void load(LoadedModel& loaded, const World& world, std::unique_ptr<Ranks> ranks) {
  const ModelFamily& family = *loaded.family;
  loaded.model = make_deferred(family, loaded.shape);
  Wish wish{loaded.settings, loaded.shape, world.size(), world.local_size()};
  wish.gpu_room = -ranks->largest(-room_on_gpu(loaded.settings, *ranks), "room");
  wish.program = largest_program(*ranks, largest_product(wish));
  const RunPlan plan = plan_for_use(loaded, wish);
  loaded.settings = plan.settings;
  const Options options = options_for_use(loaded, loaded.settings);
  require_memory(*ranks, world, plan, loaded.settings, wish.gpu_room, [&] {
    return std::string(plan.key_values == 0 ? ""
                       : loaded.settings.sample_interactive
                           ? "a smaller --seq-len, "
                           : "a smaller --batch or --num-tokens, ") +
           "more nodes, or --ignore-plan to start all the same";
  });
  if (loaded.texts.rows > 0 && ranks->rank() == 0) {
    tell_more(memory_text(plan));
    if (!dynamic_cast<ReadingModel*>(loaded.model.get()))
      tell_aside(fmt::format("{} reads the whole text for each token", family.name));
  }
  loaded.engine =
      std::make_unique<Engine>(loaded.model->module(), options, std::move(ranks));
  const std::string &folder = loaded.checkpoint.folder,
                    &adapter = loaded.settings.adapter;
  WeightsPlace place{folder, !loaded.checkpoint.is_model_folder,
                     allowances_of(loaded.settings)};
  if (!adapter.empty()) place.may_lack = adapter_names();
  if (!place.is_checkpoint) refuse_allowances(loaded.settings, folder);
  const SavedState state =
      read_weights(*loaded.engine, place, family, loaded.shape).state;
  loaded.step = state.step;
  if (loaded.batch.rank == 0) {
    for (const std::string& line : differences_of(state)) warn(line);
  }
  if (!adapter.empty()) read_adapter_weights(*loaded.engine, adapter, family);
  loaded.runner = std::make_unique<Runner>(*loaded.model, *loaded.engine);
}

// `ranks` and `hosts`, which count before anything of the checkpoint is known.
RanksToStart asked_ranks(const VerbCall& call) {
  const RawValues given = given_values(call.line, call.environment);
  RanksToStart ranks;
  ranks.words = call.line.words;
  ranks.reads_input = given.contains("sample_interactive");
  for (const auto& [key, value] : given) {
    if (value.words.size() != 1) continue;  // told with all other problems
    if (key == "ranks")
      ranks.count = static_cast<int>(parse_integer(value.words[0]).value_or(0));
    if (key == "hosts") ranks.hosts = value.words[0];
  }
  return ranks;
}

// Ranks have an empty one.
void refuse_our_input(const RawValues& given) {
  for (const char* key : {"sample_prompts", "eval_choices"}) {
    const auto found = given.find(key);
    if (found != given.end() &&
        found->second.words == std::vector<std::string>{"/dev/stdin"})
      throw Error(ExitCode::kUsage, "ranks that are started here have no standard input",
                  found->second.origin, "the name of a file; or without --ranks");
  }
}

}  // namespace

int use_checkpoint(const std::string& verb, const VerbCall& call,
                   const std::function<ExitCode(LoadedModel& loaded)>& use,
                   const std::function<void(LoadedModel&, Ranks&)>& prepare) {
  const CommandLine& line = call.line;
  if (!line.problems.empty()) throw to_error(line.problems, verb);
  const RanksToStart to_start = asked_ranks(call);
  if (call.announced || to_start.count > 0)
    check_start(call.environment, call.announced, to_start.count);
  if (!call.announced && to_start.count > 1) {
    refuse_our_input(given_values(line, call.environment));
    catch_stop_signals();
    return start_ranks(to_start);
  }
  World world(call.announced);
  // Stands while an error is told: to take it down could mean to wait for other ranks.
  LoadedModel loaded;
  return run_or_end(world, [&] {
    std::unique_ptr<Ranks> ranks = world.make_ranks();
    loaded.checkpoint = find_saved_run(line.from, call.models, *ranks);
    const Settings base = settings_for_use(loaded.checkpoint.run.settings);
    loaded.settings = read_settings(
        line, call.environment, {.verb = verb, .base = &base, .models = &call.models});
    require_same_settings(lines_of_settings(loaded.settings), *ranks);
    // Who waits for a person waits as long as that takes.
    if (!loaded.settings.sample_interactive) world.watch(loaded.settings.hang_timeout);
    set_up_process(loaded.settings, world);
    loaded.family =
        &require_family_of(call.models, loaded.checkpoint.run, loaded.checkpoint.folder);
    describe(loaded, world, *ranks);
    if (prepare) prepare(loaded, *ranks);
    use_step(loaded.checkpoint.folder, [&] { load(loaded, world, std::move(ranks)); });
    return use(loaded);
  });
}

void require_task(const LoadedModel& loaded, Task task, const std::string& verb) {
  if (loaded.family->task == task) return;
  const bool is_of_images = loaded.family->task == Task::kImages;
  throw Error(ExitCode::kUsage,
              fmt::format("{} is not for models of {}, as {} is", verb,
                          is_of_images ? "images" : "language", loaded.family->name),
              loaded.checkpoint.folder,
              is_of_images
                  ? "zero_launch predict DIR --data PATH... tells classes, and "
                    "zero_launch eval the loss"
                  : "zero_launch generate DIR --prompt TEXT continues a text, and "
                    "zero_launch eval tells the loss");
}

std::string run_of(const FoundCheckpoint& checkpoint) {
  return checkpoint::split_path(checkpoint.folder).folder;
}

std::string tokenizer_path(const LoadedModel& loaded) {
  const FoundCheckpoint& from = loaded.checkpoint;
  if (!loaded.settings.tokenizer.empty()) {
    if (from.run.is_text)
      throw Error(ExitCode::kUsage, "the model has learned bytes, and no tokens",
                  "--tokenizer", "leave it out");
    return require_tokenizer(loaded.settings.tokenizer, "--tokenizer");
  }
  if (from.run.is_text) return "";
  return tokenizer_of(from.is_model_folder ? from.folder : source_folder(run_of(from)));
}

std::unique_ptr<Tokenizer> open_tokenizer(const LoadedModel& loaded) {
  const std::string path = tokenizer_path(loaded);
  if (path.empty()) return nullptr;
  return std::make_unique<Tokenizer>(path, child_command(loaded.settings.python));
}

const std::vector<std::string>& data_for(const CommandLine& line,
                                         const Settings& settings) {
  return line.flags.contains("data") || settings.eval_data.empty() ? settings.data
                                                                   : settings.eval_data;
}

}  // namespace zero::launcher
