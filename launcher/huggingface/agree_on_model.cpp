#include "launcher/huggingface/agree_on_model.h"

#include <optional>

#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "engine/errors.h"
#include "launcher/data/token_file.h"
#include "launcher/data/token_source.h"
#include "launcher/run/resume.h"
#include "launcher/run/saved_run.h"

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

}  // namespace

ModelFolder agree_on_model(const Settings& settings, const ModelFamilies& models,
                           Ranks& ranks) {
  std::string found;
  Agreement(ranks, "the model of " + settings.init_from).run([&] {
    if (ranks.rank() != 0) return;
    std::optional<ModelFolder> model = model_of_run(settings, models);
    if (!model) model = read_model_folder(settings.init_from, models, "--init-from");
    found = json({model->path, model->family, model->config, model->source, model->notes})
                .dump();
  });
  const json all = json::parse(ranks.broadcast(found));
  return {all[0], all[1], all[2], all[3], all[4]};
}

void refuse_text(const data::TokenSource& source, int64_t vocab,
                 const std::string& folder) {
  constexpr int64_t kText = data::TokenFile::kTextVocab;
  if (source.vocab_size() != kText || vocab == kText) return;
  throw Error(ExitCode::kUsage,
              "this is text, whose bytes are not the tokens of the model in " + folder,
              source.where(),
              "token files of it: scripts/make_tokens.py --tokenizer " + folder +
                  " --out data.bin " + source.where() + "; then --data data.bin");
}

}  // namespace zero::launcher
