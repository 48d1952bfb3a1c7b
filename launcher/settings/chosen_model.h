#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/settings.h"

// Which model settings ask for: its family, config and shape.
namespace zero::launcher {

// The family that --model names; nullptr when there is none.
const ModelFamily* find_family(const ModelFamilies& models, const std::string& name);

// The family that has a preset of that name; nullptr: none.
const ModelFamily* family_of_preset(const ModelFamilies& models, const std::string& name);

// The family that has a config's "model_type"; nullptr: none, or it names none.
const ModelFamily* family_of_config(const ModelFamilies& models,
                                    const nlohmann::json& config);

// The preset that --preset names, or the family's default; nullptr when there is none.
const nlohmann::json* find_preset(const ModelFamily& family, const std::string& name);

// The class of a config, by its "model_type"; of one that names none, the family's first.
// nullptr: it is of another family, or this one has no classes.
const ConfigClass* find_class(const ModelFamily& family, const nlohmann::json& config);

// A config with every key that the family reads: `given`, brought up to date, over the
// defaults of its class. Keys that it does not read are left out. Throws Error(kUsage)
// where one of ConfigClass::fixed has another value.
nlohmann::json complete_config(const ModelFamily& family, nlohmann::json given);

// The keys of `given` that are left out so, but for those that tell nothing about a
// model: a word about each is due.
std::vector<std::string> unread_keys(const ModelFamily& family, nlohmann::json given);

// Throws Error(kUsage) for a setting that counts for another task than the family's.
void refuse_of_other_task(const ModelFamily& family, const Settings& settings);

// Globs of the parameters that adapters are.
const std::vector<std::string>& adapter_names();
bool is_of_adapter(const std::string& fqn);
// Those of this model; without adapters none.
std::vector<std::string> adapter_names(const ModelShape& shape);

// "embed, layers=0:8"; of a whole model "".
std::string parts_text(const ModelShape& shape);

// Throws Error(kUsage) for a model that lacks an end: it can be neither trained nor
// asked.
void require_loss(const ModelShape& shape);

// A new model: its preset, with every setting that is given (not 0) in its place. The
// vocabulary stays null where neither tells it. Both throw Error(kUsage) for settings
// that the family does not have, or that do not fit it.
ModelShape new_shape(const ModelFamily& family, const Settings& settings);

// A model that is there, of a complete config: sizes that settings give must be its own.
ModelShape shape_of(const ModelFamily& family, const nlohmann::json& config,
                    const Settings& settings);

}  // namespace zero::launcher
