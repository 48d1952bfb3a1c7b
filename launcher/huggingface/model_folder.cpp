#include "launcher/huggingface/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "checkpoint/json.h"
#include "checkpoint/own_files.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"
#include "engine/comm/agreement.h"
#include "launcher/data/token_file.h"
#include "launcher/data/token_source.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/run/lines.h"
#include "launcher/run/resume.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/names.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::shown;
using nlohmann::json;

constexpr char kConfig[] = "config.json";
constexpr char kCopyAgain[] =
    "a config.json that transformers has written: copy it again";

// What tokenizers and generation are made of, in all formats that are in use.
const std::vector<std::string> kCompanions = split(
    "generation_config.json tokenizer.json tokenizer_config.json "
    "special_tokens_map.json added_tokens.json vocab.json merges.txt "
    "tokenizer.model chat_template.jinja chat_template.json",
    ' ');

Error refused(const std::string& path, const std::string& problem,
              const std::string& cure) {
  return {ExitCode::kUsage, problem, path, cure};
}

std::vector<std::string> known_types(const ModelFamilies& models) {
  std::vector<std::string> types;
  for (const ModelFamily& family : models) {
    for (const ConfigClass& each : family.classes) types.push_back(each.model_type);
  }
  return types;
}

const ModelFamily& require_family(const ModelFamilies& models, const json& config,
                                  const std::string& where) {
  const json type = config.value("model_type", json());
  if (const ModelFamily* family = family_of_config(models, config)) return *family;
  throw refused(where,
                type.is_null() ? "config.json has no model_type"
                               : "models of type " + shown(type) + " are not here",
                "a model of type " + alternatives(known_types(models)));
}

void require_known(const ModelFamily& family, const json& config,
                   const std::string& where) {
  const ConfigClass& of = *find_class(family, config);
  const json architectures = config.value("architectures", json());
  if (!architectures.is_null() && architectures != json::array({of.architecture})) {
    throw refused(where, "the architecture is " + shown(architectures),
                  of.architecture + ": a language model with its head");
  }
  if (config.value("text_config", json()).is_object())
    throw refused(where, "its sizes are in text_config: it reads more than text",
                  "the folder of a language model alone");
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.value(key, json()).is_null()) continue;
    throw refused(where, std::string(key) + ": its weights are quantized",
                  "the folder of the model in fp32, bf16 or fp16");
  }
}

std::vector<std::string> notes_on(const ModelFamily& family, const json& config) {
  std::vector<std::string> notes;
  for (const std::string& key : find_class(family, config)->dropouts) {
    const json rate = config.value(key, json());
    if (rate.is_number() && rate != 0)
      notes.push_back(
          fmt::format("config.json has {} {}; --dropout alone counts", key, shown(rate)));
  }
  const std::vector<std::string> unread = unread_keys(family, config);
  if (!unread.empty()) {
    std::vector<std::string> names;
    for (const std::string& key : unread) names.push_back(zero::printable(key));
    notes.push_back(fmt::format("config.json has keys that say nothing here: {}",
                                fmt::join(names, ", ")));
  }
  return notes;
}

// A name as meta-llama/Llama-3.2-1B.
bool is_of_a_hub(const std::string& path) {
  std::error_code error;
  const bool is_name = path.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789-_./") == path.npos;
  return is_name && std::ranges::count(path, '/') == 1 && path[0] != '.' &&
         path[0] != '/' && !path.ends_with('/') && !fs::exists(path, error);
}

// What the frozen weights of its checkpoints have been kept in, if the same ones are
// frozen now. "": some may have been trained.
std::string kept_dtype(const SavedRun& run, const Settings& settings) {
  Settings now = settings;
  if (now.lora.empty() && now.adapter.empty()) now.lora = run.settings.lora;
  return freezes_no_more(now, run.settings) ? run.settings.frozen_dtype : "";
}

// The run's own model, of its newest checkpoint that tells it.
std::optional<ModelFolder> model_of_run(const Settings& settings,
                                        const ModelFamilies& models) {
  for (const std::string& folder : plan_resume(settings.resume, settings.out).folders) {
    try {
      const SavedRun run =
          parse_saved_run(checkpoint::Reader(folder).manifest().config, folder);
      const ModelFamily* family = find_family_of(models, run);
      if (family && !run.model.empty())
        return ModelFolder{.path = "",
                           .family = family->name,
                           .config = run.model,
                           .source = run.source,
                           .dtype = kept_dtype(run, settings)};
    } catch (const checkpoint::CheckpointError&) {
      continue;  // resuming passes it over, too, and says so
    }
  }
  return std::nullopt;
}

// "": they are of several types, or cannot be read, which is told where they are.
std::string dtype_of_weights(const std::string& path) try {
  std::set<DType> types;
  const checkpoint::SafetensorsFolder folder(path);
  for (const auto& [name, tensor] : folder.tensors())
    if (is_floating(tensor.dtype)) types.insert(tensor.dtype);
  return types.size() == 1 ? name_of(*types.begin()) : "";
} catch (const checkpoint::CheckpointError&) {
  return "";
}

// The model that a checkpoint holds, of whatever step: for its weights alone.
ModelFolder model_of_checkpoint(const std::string& path, const Settings& settings,
                                const ModelFamilies& models) {
  const std::string folder = find_and_tell(path, "--init-from");
  const SavedRun run =
      parse_saved_run(checkpoint::Reader(folder).manifest().config, folder);
  const ModelFamily& family = require_family_of(models, run, folder);
  return {.path = folder,
          .family = family.name,
          .config = shape_of_run(family, run, run.settings).config,
          .source = run.source,
          .is_checkpoint = true,
          .dtype = kept_dtype(run, settings)};
}

}  // namespace

json read_small_json(const std::string& folder, const std::string& name,
                     const std::string& cure) {
  constexpr int64_t kLargest = 4 << 20;  // those of many layers list their types
  const std::string file = folder + "/" + name;
  const std::string text =
      checkpoint::read_text(checkpoint::Folder(folder), name, kLargest);
  try {
    return checkpoint::parse_strictly(text, file);
  } catch (const checkpoint::CheckpointError& error) {
    throw checkpoint::CheckpointError(file, "", error.problem(), cure);
  }
}

bool is_of_run(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  return fs::exists(path + "/" + checkpoint::kManifestFile, error) ||
         !checkpoint::list_steps(path).empty();
}

bool is_model_folder(const std::string& path) {
  std::error_code error;
  return (fs::exists(path + "/" + kConfig, error) || is_adapter_folder(path)) &&
         !is_of_run(path);
}

ModelFolder read_model_folder(const std::string& path, const ModelFamilies& models,
                              const std::string& flag) {
  std::error_code error;
  const std::string cure =
      flag + (flag == "DIR" ? "" : " DIR") +
      ": a run's folder, one of its steps, or a model's folder of Hugging Face";
  if (!fs::is_directory(path, error)) {
    throw refused(path, no_folder(flag, path),
                  is_of_a_hub(path) ? "first download it: hf download " + path +
                                          " --local-dir DIR; then " + flag + " DIR"
                                    : cure);
  }
  const bool has_config = fs::exists(path + "/" + kConfig, error);
  if (is_adapter_folder(path)) {
    throw refused(path, "it holds an adapter, not a model",
                  "the model's folder; --adapter DIR adds an adapter to it");
  }
  if (!has_config)
    throw refused(path, "it holds neither checkpoints nor a config.json", cure);
  return judge_config(read_small_json(path, kConfig, kCopyAgain), path, models);
}

ModelFolder judge_config(const json& source, const std::string& path,
                         const ModelFamilies& models) {
  const std::string where = path + "/" + kConfig;
  if (!source.is_object()) {
    throw checkpoint::CheckpointError(where, "", "it is no JSON object", kCopyAgain);
  }
  const ModelFamily& family = require_family(models, source, where);
  require_known(family, source, where);
  ModelFolder folder{path, family.name, {}, source};
  folder.config = complete_config(family, source);
  family.check({.config = folder.config, .keys = family.keys});
  folder.notes = notes_on(family, source);
  return folder;
}

bool is_companion(const std::string& name) {
  return std::ranges::count(kCompanions, name) > 0;
}

std::vector<std::string> companions_in(const std::string& path) {
  const checkpoint::Folder folder(path);
  std::vector<std::string> names;
  for (const std::string& name : kCompanions)
    if (folder.has(name)) names.push_back(name);
  return names;
}

bool is_of_tokenizer(const std::string& name) {
  return is_companion(name) && name != "generation_config.json";
}

void copy_files(const std::string& from, const std::vector<std::string>& names,
                const std::string& to) {
  for (const std::string& name : names) copy_as(from + "/" + name, to, name);
}

void copy_as(const std::string& path, const std::string& to, const std::string& as) {
  constexpr int64_t kLargest = int64_t{1} << 30;
  checkpoint::Io& io = checkpoint::system_io();
  std::error_code error;
  fs::create_directories(to, error);
  const auto [from, name] = checkpoint::split_path(path);
  const checkpoint::Folder target(to);
  const std::string bytes =
      checkpoint::read_text(checkpoint::Folder(from), name, kLargest);
  if (target.has(as)) {
    if (checkpoint::read_text(target, as, kLargest) == bytes) return;
    throw Error(ExitCode::kUsage, "another file of that name is there, and it stays",
                target.path_of(as), "move it away, or another --out");
  }
  checkpoint::replace_text(target, as, bytes, "", io);  // whole, or not there
  target.sync(io);
}

ModelFolder read_init_from(const Settings& settings, const ModelFamilies& models) {
  const std::string& path = settings.init_from;
  ModelFolder model = is_of_run(path) ? model_of_checkpoint(path, settings, models)
                                      : read_model_folder(path, models, "--init-from");
  if (!model.is_checkpoint) model.dtype = dtype_of_weights(path);
  if (settings.adapter.empty()) return model;
  const ModelFamily& family = *find_family(models, model.family);
  add_adapter(model.config, read_adapter(settings.adapter, "--adapter", family),
              "--adapter");
  const std::set<std::string> names = names_beside_factors(settings.adapter, family);
  if (!names.empty()) model.config[kLora][kCameAlong] = names;
  return model;
}

ModelFolder agree_on_model(const Settings& settings, const ModelFamilies& models,
                           Ranks& ranks) {
  std::string found;
  Agreement(ranks, "the model of " + settings.init_from).run([&] {
    if (ranks.rank() != 0) return;
    std::optional<ModelFolder> model = model_of_run(settings, models);
    if (!model) model = read_init_from(settings, models);
    found = json({model->path, model->family, model->config, model->source, model->notes,
                  model->is_checkpoint, model->dtype})
                .dump();
  });
  const json all = json::parse(ranks.broadcast(found));
  return {all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
}

void refuse_allowances(const Settings& settings, const std::string& folder) {
  if (settings.allow_missing.empty() && settings.allow_extra.empty()) return;
  throw Error(ExitCode::kUsage,
              "--allow-missing and --allow-extra are for checkpoints, and this is a "
              "model's folder of Hugging Face",
              folder, "leave them out");
}

void refuse_text(const ModelFamily& family, const data::Source& source, int64_t vocab,
                 const std::string& folder) {
  if (!is_text(family, source.vocab_size()) || is_text(family, vocab)) return;
  throw Error(ExitCode::kUsage,
              "this is text, whose bytes are not the tokens of the model in " + folder,
              source.where(),
              "--tokenizer DIR: a folder with the model's tokenizer.json, which this one "
              "lacks");
}

}  // namespace zero::launcher
