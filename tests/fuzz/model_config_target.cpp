// config.json of a model's folder, whoever wrote it.
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/json.h"
#include "examples/models/families.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/settings/chosen_model.h"
#include "tests/fuzz/target.h"
#include "zero/errors.h"

namespace zero::fuzz::model_config {
namespace {

using namespace launcher;
using nlohmann::json;

const ModelFamilies& families() {
  static const ModelFamilies families = example_families();
  return families;
}

// A shape for a run that tells nothing itself, or one refusal.
void claim_run(const ModelFamily& family, const json& config) {
  try {
    const ModelShape shape = shape_of(family, config, Settings());
    claim(shape.seq_len > 0, "a sample has tokens");
    claim(shape.vocab() > 0 && shape.layers() > 0 && shape.dim() > 0 && shape.heads() > 0,
          "a model has sizes");
    claim(!family.init_rules(shape).empty(), "parameters have first values");
    const PassShape pass{.rows = 2, .rows_in_units = 1, .element_bytes = 2};
    claim(family.activation_bytes(shape, pass).computed > 0, "a pass takes memory");
  } catch (const Error& error) {
    claim(error.code() == ExitCode::kUsage, "a refused run is an error of usage");
  }
}

// Read again as it is exported. What a null left to be worked out is told there.
json with_keys_of_old(const ModelFamily& family, const json& config) {
  json aged = config;
  if (family.age) family.age(aged);
  json read = complete_config(family, aged);
  for (const auto& [key, value] : config.items()) {
    if (value.is_null()) read[key] = nullptr;
  }
  return read;
}

void claim_model(const ModelFolder& folder) {
  const ModelFamily* family = family_of_config(families(), folder.config);
  claim(family && family->name == folder.family, "a config keeps its family");
  claim(complete_config(*family, folder.config) == folder.config,
        "a complete config is complete");
  claim(unread_keys(*family, folder.config).empty(), "all of a complete config is read");
  claim(with_keys_of_old(*family, folder.config) == folder.config,
        "with the keys of old beside it a config is the same");
  claim_run(*family, folder.config);
}

}  // namespace

void target(const std::string& text) {
  try {
    const auto source = checkpoint::parse_strictly(text, "config.json");
    claim_model(launcher::judge_config(source, "folder", families()));
  } catch (const checkpoint::CheckpointError&) {
  } catch (const Error& error) {
    claim(error.code() == ExitCode::kUsage, "a refused model is an error of usage");
  }
}

}  // namespace zero::fuzz::model_config
