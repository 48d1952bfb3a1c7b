#include "launcher/settings/chosen_data.h"

#include "launcher/data/token_source.h"
#include "zero/errors.h"

namespace zero::launcher {

std::unique_ptr<data::Source> open_source(const ModelFamily&,
                                          const std::vector<std::string>& paths,
                                          const Settings& settings) {
  return std::make_unique<data::TokenSource>(paths, settings.bytes);
}

void fit_to_data(ModelShape& shape, const data::Source& source) {
  if (shape.vocab() == 0 && source.vocab_size() > 0) shape.set_vocab(source.vocab_size());
  if (shape.vocab() == 0) {
    throw Error(ExitCode::kUsage, "vocab is missing, and these files do not tell it",
                source.where(), "--vocab N");
  }
}

void fit_to_data(ModelShape& shape, const ModelFamily& family, const Settings& settings) {
  if (shape.vocab() > 0) return;
  if (settings.data.empty()) return shape.set_vocab(data::TokenFile::kTextVocab);
  fit_to_data(shape, *open_source(family, settings.data, settings));
}

data::SampleShape sample_shape(const ModelShape& shape) {
  return {shape.seq_len, shape.image_size()};
}

}  // namespace zero::launcher
