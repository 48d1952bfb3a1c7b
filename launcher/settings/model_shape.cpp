#include "launcher/settings/model_shape.h"

#include <algorithm>

namespace zero::launcher {

const ModelFamily* find_family(const ModelFamilies& models, const std::string& name) {
  const auto found = std::ranges::find(models, name, &ModelFamily::name);
  return found == models.end() ? nullptr : &*found;
}

const ModelShape* find_preset(const ModelFamily& family, const std::string& name) {
  const auto found = family.presets.find(name.empty() ? family.default_preset : name);
  return found == family.presets.end() ? nullptr : &found->second;
}

ModelShape chosen_shape(const ModelShape& preset, const Settings& settings) {
  const auto chosen = [](int64_t given, int64_t otherwise) {
    return given != 0 ? given : otherwise;
  };
  ModelShape shape;
  shape.layers = chosen(settings.layers, preset.layers);
  shape.dim = chosen(settings.dim, preset.dim);
  shape.heads = chosen(settings.heads, preset.heads);
  // A preset's other sizes belong to its own width and heads: with those changed the
  // family works them out again.
  const bool is_resized = shape.dim != preset.dim || shape.heads != preset.heads;
  shape.kv_heads = chosen(settings.kv_heads, is_resized ? 0 : preset.kv_heads);
  shape.ffn_dim = chosen(settings.ffn_dim, is_resized ? 0 : preset.ffn_dim);
  shape.vocab = chosen(settings.vocab, preset.vocab);
  shape.seq_len = chosen(settings.seq_len, preset.seq_len);
  shape.dropout = settings.dropout;
  shape.loss_chunk = settings.loss_chunk;
  return shape;
}

ModelShape chosen_shape(const ModelFamily& family, const Settings& settings) {
  return chosen_shape(*find_preset(family, settings.preset), settings);
}

}  // namespace zero::launcher
