#pragma once
#include "launcher/huggingface/model_folder.h"
#include "launcher/settings/settings.h"

namespace zero::data {
class TokenSource;
}

namespace zero::launcher {

// The model of a folder that `--init-from` names: of Hugging Face, of a run, or one of
// its steps. Throws as read_model_folder() and find_checkpoint() do.
ModelFolder read_init_from(const std::string& path, const ModelFamilies& models);

// The model of `--init-from`, the same on every rank. A run that continues has it from
// its newest checkpoint and needs the folder no more: then `path` is empty. Collective;
// throws as read_init_from() and plan_resume() do.
ModelFolder agree_on_model(const Settings& settings, const ModelFamilies& models,
                           Ranks& ranks);

// Throw Error(kUsage) for --allow-missing and --allow-extra, which a folder of Hugging
// Face does not know.
void refuse_allowances(const Settings& settings, const std::string& folder);

// Throw Error(kUsage) for text, unless bytes are the tokens of the model in `folder`,
// with the command that makes token files.
void refuse_text(const data::TokenSource& source, int64_t vocab,
                 const std::string& folder);

}  // namespace zero::launcher
