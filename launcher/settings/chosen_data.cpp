#include "launcher/settings/chosen_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/data/images/image_source.h"
#include "launcher/data/token_source.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// Of a model that no data were given for: those of ImageNet.
constexpr int64_t kUsualClasses = 1000, kUsualImageSize = 224;

bool lacks_image_size(const ModelShape& shape) {
  return !shape.keys.image_size.empty() && shape.image_size() == 0;
}

void set_image_size(ModelShape& shape, int64_t size) {
  if (lacks_image_size(shape))
    shape.config[shape.keys.image_size] = size > 0 ? size : kUsualImageSize;
}

}  // namespace

std::unique_ptr<data::Source> open_source(const ModelFamily& family,
                                          const std::vector<std::string>& paths,
                                          const Settings& settings) {
  if (family.task == Task::kImages) return std::make_unique<data::ImageSource>(paths);
  return std::make_unique<data::TokenSource>(paths, settings.bytes);
}

void fit_to_data(ModelShape& shape, const data::Source& source) {
  set_image_size(shape, source.image_size());
  if (shape.vocab() == 0 && source.vocab_size() > 0) shape.set_vocab(source.vocab_size());
  if (shape.vocab() == 0) {
    throw Error(ExitCode::kUsage, "vocab is missing, and these files do not tell it",
                source.where(), "--vocab N");
  }
}

void fit_to_data(ModelShape& shape, const ModelFamily& family, const Settings& settings) {
  if (shape.vocab() > 0 && !lacks_image_size(shape)) return;
  if (!settings.data.empty())
    return fit_to_data(shape, *open_source(family, settings.data, settings));
  const bool is_of_images = family.task == Task::kImages;
  if (shape.vocab() == 0)
    shape.set_vocab(is_of_images ? kUsualClasses : data::TokenFile::kTextVocab);
  set_image_size(shape, kUsualImageSize);
}

void require_classes(const data::Source& source,
                     const std::vector<std::string>& classes) {
  const std::vector<std::string> here = source.class_names();
  if (classes.empty() || here == classes) return;
  throw Error(
      ExitCode::kData,
      fmt::format("the classes are other ones than the model's: {} here, {} there",
                  fmt::join(here, ", "), fmt::join(classes, ", ")),
      source.where(), "data with a folder for each of the model's classes");
}

data::SampleShape sample_shape(const ModelShape& shape) {
  return {shape.seq_len, shape.image_size()};
}

}  // namespace zero::launcher
