#include "launcher/huggingface/export.h"

#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/buffer.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/json.h"
#include "checkpoint/open_run.h"
#include "checkpoint/own_files.h"
#include "checkpoint/own_folder.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/watch/activity.h"
#include "launcher/data/token_file.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/copy_weights.h"
#include "launcher/huggingface/exported_files.h"
#include "launcher/huggingface/held_tensors.h"
#include "launcher/huggingface/merged_weights.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/lora_setting.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointError;
using checkpoint::shown;
using nlohmann::json;

// What is exported, but for its weights.
struct Subject {
  const ModelFamily* family = nullptr;
  json config;  // complete
  json source;  // config.json of the weights that the run started from; null: none
  bool is_text = false;
  std::vector<std::string> classes;
  std::string base;  // the folder of Hugging Face that the run started from; "": none
  std::string frozen_at;  // where frozen weights are that it is without; "": it has all
};

Subject subject_of(const checkpoint::Manifest& manifest, const std::string& from,
                   const ModelFamilies& models) {
  const SavedRun run = parse_saved_run(manifest.config, from);
  Subject subject;
  subject.frozen_at = run.frozen.path;
  subject.family = find_family_of(models, run);
  if (!subject.family || subject.family->classes.empty()) {
    throw Error(ExitCode::kUsage,
                "Hugging Face does not know models of family " + run.settings.model, from,
                "a checkpoint of one of the families that zero_launch brings");
  }
  subject.config = shape_of_run(*subject.family, run, run.settings).config;
  subject.source = run.source;
  subject.is_text = run.is_text;
  subject.classes = run.classes;
  if (is_model_folder(run.settings.init_from)) subject.base = run.settings.init_from;
  return subject;
}

// "n_layer is 4 and 6", of the first key that differs.
std::string difference_of(const json& a, const json& b) {
  for (const auto& [key, value] : a.items()) {
    const json other = b.value(key, json());
    if (other != value)
      return fmt::format("{} is {} and {}", key, shown(value), shown(other));
  }
  return "one has more keys";
}

// The whole that several have the parts of.
Subject joined_subject(const HeldTensors& held, const ModelFamilies& models) {
  const std::vector<std::string>& folders = held.folders();
  Subject whole = subject_of(held.manifest(0), folders[0], models);
  if (folders.size() == 1) return whole;
  whole.config.erase(kParts);
  if (whole.source.is_object()) whole.source.erase(kParts);
  for (size_t i = 1; i < folders.size(); ++i) {
    json config = subject_of(held.manifest(i), folders[i], models).config;
    config.erase(kParts);
    if (config == whole.config) continue;
    throw Error(ExitCode::kUsage,
                "they are of two models: " + difference_of(whole.config, config),
                folders[0] + " and " + folders[i], "checkpoints of parts of one model");
  }
  held.require_all(*whole.family, whole.config);
  return whole;
}

const char* torch_name(DType dtype) {
  if (dtype == DType::kBf16) return "bfloat16";
  return dtype == DType::kFp16 ? "float16" : "float32";
}

DType dtype_of_source(const json& source) {
  if (!source.is_object()) return DType::kFp32;
  json name = source.value("dtype", json());
  if (name.is_null()) name = source.value("torch_dtype", json());
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    if (name == torch_name(dtype)) return dtype;
  }
  return DType::kFp32;
}

// What stood there before, with what the model is now.
json config_to_write(const Subject& subject, DType dtype) {
  const ConfigClass& of = *find_class(*subject.family, subject.config);
  json config = subject.source.is_object() ? subject.source : json::object();
  for (const auto& [alias, key] : of.aliases) config.erase(alias);
  config.update(subject.config);
  config.erase(kLora);
  config["architectures"] = {of.architecture};
  config["dtype"] = config["torch_dtype"] = torch_name(dtype);
  for (size_t i = 0; i < subject.classes.size(); ++i)
    config["id2label"][std::to_string(i)] = subject.classes[i];
  if (subject.family->age) subject.family->age(config);
  if (subject.source.is_object()) return config;
  // Otherwise defaults of the class would count, which are other models'.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = subject.is_text ? json(data::TokenFile::kEndOfText) : json();
  return config;
}

// Of a model with adapters.
struct AdapterParts {
  std::vector<LoraTarget> layers;
  std::set<std::string> trained;       // the factors, and parameters beside them
  std::set<std::string> written = {};  // those, and what came along with the adapters
};

AdapterParts adapters_in(const Subject& subject, Adapters asked,
                         const HeldTensors& held) {
  const std::string& folder = held.folders().front();
  const ModelShape shape{.config = subject.config, .keys = subject.family->keys};
  const bool has_any = shape.lora() != nullptr;
  if (has_any && asked == Adapters::kNone)
    throw Error(ExitCode::kUsage, "this checkpoint is a model with adapters", folder,
                "--merge, which adds them to the weights; or --adapter, which writes "
                "them alone, for peft");
  if (!has_any && asked != Adapters::kNone)
    throw Error(ExitCode::kUsage, "this checkpoint has no adapters", folder,
                "leave --merge and --adapter out");
  if (!has_any) return {};
  const std::unique_ptr<Model> model = make_deferred(*subject.family, shape);
  AdapterParts parts{lora_targets(*model->module()), names_of_trained(*model)};
  parts.written = parts.trained;
  for (const json& fqn : shape.lora()->value(kCameAlong, json::array()))
    parts.written.insert(fqn.get<std::string>());
  for (const auto& [alias, fqn] : held.manifest(0).aliases)
    if (parts.written.contains(alias)) parts.written.insert(fqn);
  return parts;
}

// What of the parameters is written, and how.
struct Selection {
  std::vector<HeldTensor> parameters;
  MergedWeights merged;
  NamesInFile names;
};

NamesInFile names_for(const ModelFamily& family, bool alone) {
  return [&family, alone](const std::string& fqn) {
    if (!alone) return std::vector{fqn};
    std::vector<std::string> names = names_in_peft(family, fqn);
    for (std::string& name : names) name = kAdapterPrefix + name;
    return names;
  };
}

Selection select(const HeldTensors& held, const ModelFamily& family,
                 const AdapterParts& adapters, bool alone) {
  Selection selection{
      held.of_kind(checkpoint::Kind::kParam),
      MergedWeights(held, alone ? std::vector<LoraTarget>() : adapters.layers),
      names_for(family, alone)};
  std::vector<HeldTensor>& parameters = selection.parameters;
  std::erase_if(parameters, [&](const HeldTensor& each) {
    const std::string& fqn = each.tensor->fqn;
    return alone ? !adapters.written.contains(fqn) : selection.merged.is_factor(fqn);
  });
  for (const auto& [reader, tensor] : parameters) {
    if (tensor->dtype != DType::kFp32)
      throw CheckpointError(held.folders()[0], tensor->fqn, "its masters are not fp32");
  }
  return selection;
}

// peft would take it for another tensor than what it is tied to.
void require_untied(const std::string& fqn, const HeldTensors& held) {
  for (const auto& [alias, of] : held.manifest(0).aliases)
    if (of == fqn)
      throw Error(ExitCode::kUsage,
                  fmt::format("it is trained and one tensor with {}; in peft they would "
                              "be two",
                              alias),
                  fqn, "--merge, which writes the whole model");
}

json adapter_config_of(const Subject& subject, const AdapterParts& adapters,
                       const Selection& selection, const HeldTensors& held) {
  const LoraOptions options = lora_from_json(subject.config.at(kLora), "the checkpoint");
  std::set<std::string> saved;  // modules
  for (const auto& [reader, tensor] : selection.parameters) {
    const std::string& fqn = tensor->fqn;
    if (is_of_adapter(fqn) || !adapters.trained.contains(fqn)) continue;
    require_untied(fqn, held);
    for (const std::string& name : names_in_peft(*subject.family, fqn))
      saved.insert(name.substr(0, name.rfind('.')));
  }
  return adapter_config(options, adapters.layers, {saved.begin(), saved.end()},
                        subject.base);
}

Exported write_weights(const HeldTensors& held, Selection& selection,
                       const std::string& folder, DType dtype,
                       const ExportOptions& options) {
  const bool alone = options.adapters == Adapters::kAlone;
  std::vector<checkpoint::SafeTensorSpec> specs;
  for (const auto& [reader, tensor] : selection.parameters)
    for (const std::string& name : selection.names(tensor->fqn))
      specs.push_back({name, dtype, tensor->shape});
  // They keep their type, as running statistics do.
  const std::vector<HeldTensor> buffers =
      alone ? std::vector<HeldTensor>() : held.of_kind(checkpoint::Kind::kBuffer);
  for (const auto& [reader, tensor] : buffers)
    specs.push_back({tensor->fqn, tensor->dtype, tensor->shape});
  const int64_t max_file_bytes = alone ? INT64_MAX : options.max_file_bytes;
  constexpr int64_t kOtherFiles = 64;
  allow_open_files(
      kOtherFiles + checkpoint::SafetensorsWriter::num_files(specs, max_file_bytes),
      "a larger --max-shard-size");
  checkpoint::SafetensorsWriter writer(
      folder, specs, max_file_bytes, checkpoint::system_io(),
      alone ? checkpoint::kAdapterFile : checkpoint::kSafetensorsFile);
  Exported exported;
  exported.dtype = dtype;
  int64_t read_bytes = 0;
  for (const auto& [reader, tensor] : selection.parameters) {
    read_bytes += tensor->num_bytes();
    exported.num_bytes +=
        tensor->numel() * size_of(dtype) * std::ssize(selection.names(tensor->fqn));
  }
  Activity::Stretch stretch("export");
  stretch.expect(read_bytes + exported.num_bytes);
  copy_weights(selection.parameters, selection.merged, selection.names, dtype, writer);
  for (const auto& [reader, tensor] : buffers) {
    const checkpoint::Buffer values(static_cast<size_t>(tensor->num_bytes()));
    reader->read(tensor->kind, tensor->fqn, 0, tensor->numel(), values.data());
    writer.write_stored(tensor->fqn, values.data());
    exported.num_bytes += tensor->num_bytes();
  }
  writer.finish();
  exported.num_tensors = std::ssize(specs);
  exported.files = writer.files();
  return exported;
}

void require_new(const ExportOptions& options) {
  std::error_code error;
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ExitCode::kUsage, what, options.to, cure);
  };
  if (!fs::exists(fs::symlink_status(options.to, error))) return;
  if (!fs::is_directory(options.to, error))
    refuse("--to names a file", "--to DIR: a new folder");
  if (is_of_run(options.to))
    refuse("--to names a folder with checkpoints, which are no model's files",
           "--to DIR: a new folder");
  if (!options.replace && !fs::is_empty(options.to, error))
    refuse("the folder is there and not empty",
           "another --to, or --replace to replace a model in it");
  const bool alone = options.adapters == Adapters::kAlone;
  const std::string other = first_of_others(options.to, alone);
  if (!other.empty())
    refuse(fmt::format("the folder has {}, which would be loaded with {}", other,
                       alone ? "the adapters" : "the model"),
           "another --to: what is there stays");
}

// With the files that go with weights; of several the first that has them.
std::string source_of(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const std::string source = source_folder(checkpoint::split_path(folder).folder);
    if (fs::is_directory(source)) return source;
  }
  return "";
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

Exported export_model(const ExportOptions& given, const ModelFamilies& models) {
  ExportOptions options = given;
  options.to = without_trailing_slash(given.to);
  require_new(options);
  const HeldTensors held(options.from);
  const Subject subject = joined_subject(held, models);
  const bool alone = options.adapters == Adapters::kAlone;
  if (!alone && !subject.frozen_at.empty())
    throw Error(ExitCode::kUsage,
                "the checkpoint is without its frozen weights (--save-frozen=false)",
                options.from.front(),
                subject.config.contains(kLora)
                    ? "export --adapter, and merge that into " + subject.frozen_at
                    : "more steps of the run without --save-frozen=false");
  const AdapterParts adapters = adapters_in(subject, options.adapters, held);
  Selection selection = select(held, *subject.family, adapters, alone);
  const json adapter =
      alone ? adapter_config_of(subject, adapters, selection, held) : json();
  const DType dtype =
      options.dtype.value_or(alone ? DType::kFp32 : dtype_of_source(subject.source));
  remove_left_behind(options.to);
  const checkpoint::OwnFolder partial = make_partial(options.to);
  ::flock(partial.folder().descriptor(), LOCK_EX | LOCK_NB);
  Exported exported = write_weights(held, selection, partial.path(), dtype, options);
  exported.is_of_language = subject.family->task == Task::kLanguage;
  const std::string source = source_of(options.from);
  if (!source.empty()) {
    exported.companions = companions_in(source);
    copy_files(source, exported.companions, partial.path());
  }
  const checkpoint::Folder& folder = partial.folder();
  const json config = alone ? adapter : config_to_write(subject, dtype);
  checkpoint::write_text(folder, alone ? kAdapterConfig : "config.json",
                         config.dump(2) + "\n", checkpoint::system_io());
  folder.sync(checkpoint::system_io());
  publish(partial.path(), options.to);
  return exported;
}

}  // namespace zero::launcher
