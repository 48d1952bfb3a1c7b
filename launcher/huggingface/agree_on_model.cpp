#include "launcher/huggingface/agree_on_model.h"

#include <optional>

#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "launcher/data/token_file.h"
#include "launcher/data/token_source.h"
#include "launcher/run/resume.h"
#include "launcher/run/saved_run.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// The run's own model, of its newest checkpoint that tells it.
std::optional<ModelFolder> model_of_run(const Settings& settings,
                                        const ModelFamilies& models) {
  for (const std::string& folder : plan_resume(settings.resume, settings.out).folders) {
    try {
      const SavedRun run =
          parse_saved_run(checkpoint::Reader(folder).manifest().config, folder);
      const ModelFamily* family = find_family_of(models, run);
      if (family && !run.model.empty())
        return ModelFolder{"", family->name, run.model, run.source};
    } catch (const checkpoint::CheckpointError&) {
      continue;  // resuming passes it over, too, and says so
    }
  }
  return std::nullopt;
}

// The model that a checkpoint holds, of whatever step: for its weights alone.
ModelFolder model_of_checkpoint(const std::string& path, const ModelFamilies& models) {
  const std::string folder = find_checkpoint(path, "--init-from");
  const SavedRun run =
      parse_saved_run(checkpoint::Reader(folder).manifest().config, folder);
  const ModelFamily* family = find_family_of(models, run);
  if (!family)
    throw Error(ExitCode::kUsage,
                "models of family " + run.settings.model + " are not here", folder,
                "a checkpoint of a model that is here");
  return {.path = folder,
          .family = family->name,
          .config = shape_of_run(*family, run, run.settings).config,
          .source = run.source,
          .is_checkpoint = true};
}

}  // namespace

ModelFolder read_init_from(const std::string& path, const ModelFamilies& models) {
  return is_of_run(path) ? model_of_checkpoint(path, models)
                         : read_model_folder(path, models, "--init-from");
}

ModelFolder agree_on_model(const Settings& settings, const ModelFamilies& models,
                           Ranks& ranks) {
  std::string found;
  Agreement(ranks, "the model of " + settings.init_from).run([&] {
    if (ranks.rank() != 0) return;
    std::optional<ModelFolder> model = model_of_run(settings, models);
    if (!model) model = read_init_from(settings.init_from, models);
    found = json({model->path, model->family, model->config, model->source, model->notes,
                  model->is_checkpoint})
                .dump();
  });
  const json all = json::parse(ranks.broadcast(found));
  return {all[0], all[1], all[2], all[3], all[4], all[5]};
}

void refuse_allowances(const Settings& settings, const std::string& folder) {
  if (settings.allow_missing.empty() && settings.allow_extra.empty()) return;
  throw Error(ExitCode::kUsage,
              "--allow-missing and --allow-extra are for checkpoints, and this is a "
              "model's folder of Hugging Face",
              folder, "leave them out");
}

void refuse_text(const data::TokenSource& source, int64_t vocab,
                 const std::string& folder) {
  constexpr int64_t kText = data::TokenFile::kTextVocab;
  if (source.vocab_size() != kText || vocab == kText) return;
  throw Error(ExitCode::kUsage,
              "this is text, whose bytes are not the tokens of the model in " + folder,
              source.where(),
              "token files of it, by scripts/make_tokens.py of zero's sources and the "
              "model's tokenizer.json: make_tokens.py --tokenizer " +
                  folder + " --out data.bin " + source.where() +
                  "; then --data data.bin");
}

}  // namespace zero::launcher
