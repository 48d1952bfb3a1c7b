#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero {
class Ranks;
}

// Models as folders of Hugging Face: config.json, safetensors, tokenizer files.
namespace zero::data {
class Source;
}
namespace zero::launcher {

// What a folder says about its model.
struct ModelFolder {
  std::string path;
  std::string family;                   // ModelFamily::name
  nlohmann::json config;                // complete, of that family
  nlohmann::json source;                // config.json as it stands there
  std::vector<std::string> notes = {};  // what people should know
  bool is_checkpoint = false;           // `path` is a step's folder, of a run of ours
  // What all weights are stored in, as --frozen-dtype calls it; "": in several types, or
  // nobody asked.
  std::string dtype = {};
};

// A JSON file of a folder, of 4 MiB at most. Throws CheckpointError with this cure.
nlohmann::json read_small_json(const std::string& folder, const std::string& name,
                               const std::string& cure);

// Is it a step's folder, or one with such in it?
bool is_of_run(const std::string& path);

// Has it a config.json, and is no run?
bool is_model_folder(const std::string& path);

// Read config.json. Throws Error(kUsage) that names `flag` for what is no such folder,
// and for models that are not here, by name; CheckpointError for files that are broken.
ModelFolder read_model_folder(const std::string& path, const ModelFamilies& models,
                              const std::string& flag);

// The same for a config.json that was read from the folder `path`.
ModelFolder judge_config(const nlohmann::json& source, const std::string& path,
                         const ModelFamilies& models);

// Whether it is the name of a small file that goes with weights: of a tokenizer,
// generation_config.json.
bool is_companion(const std::string& name);

// One of a tokenizer: of those but generation_config.json.
bool is_of_tokenizer(const std::string& name);

// Of those, the names of the ones that are there.
std::vector<std::string> companions_in(const std::string& path);

// Copy files byte for byte into a folder that is made if need be. Throws Error(kUsage)
// where another file of that name is there.
void copy_files(const std::string& from, const std::vector<std::string>& names,
                const std::string& to);

// The same of one file, which gets the name `as` there.
void copy_as(const std::string& path, const std::string& to, const std::string& as);

// The model of a folder that `--init-from` names: of Hugging Face, of a run, or one of
// its steps; with the adapters of `--adapter`, whose weights are not the folder's. Throws
// as read_model_folder(), find_checkpoint() and read_adapter() do.
ModelFolder read_init_from(const Settings& settings, const ModelFamilies& models);

// The model of `--init-from`, the same on every rank. A run that continues has it from
// its newest checkpoint and needs the folder no more: then `path` is empty. Collective;
// throws as read_init_from() and plan_resume() do.
ModelFolder agree_on_model(const Settings& settings, const ModelFamilies& models,
                           Ranks& ranks);

// Throw Error(kUsage) for --allow-missing and --allow-extra, which a folder of Hugging
// Face does not know.
void refuse_allowances(const Settings& settings, const std::string& folder);

// Throw Error(kUsage) for text, unless bytes are the tokens of the model in `folder`:
// nothing made tokens of it.
void refuse_text(const ModelFamily& family, const data::Source& source, int64_t vocab,
                 const std::string& folder);

}  // namespace zero::launcher
