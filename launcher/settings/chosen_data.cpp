#include "launcher/settings/chosen_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "launcher/data/example_source.h"
#include "launcher/data/images/image_source.h"
#include "launcher/data/token_source.h"
#include "launcher/text/python_child.h"
#include "launcher/text/text_options.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// Of a model that no data were given for: those of ImageNet.
constexpr int64_t kUsualClasses = 1000, kUsualImageSize = 224;

bool lacks_image_size(const ModelShape& shape) {
  return !shape.keys.image_size.empty() && shape.image_size() == 0;
}

void set_image_size(ModelShape& shape, int64_t size) {
  shape.config[shape.keys.image_size] = size > 0 ? size : kUsualImageSize;
}

std::string shown_classes(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const std::string few =
      fmt::format("{}", fmt::join(names | std::views::take(kMost), ", "));
  return names.size() <= kMost ? few
                               : fmt::format("{} and {} more", few, names.size() - kMost);
}

data::TooLong too_long_named(const std::string& word) {
  return word == "drop"       ? data::TooLong::kDrop
         : word == "truncate" ? data::TooLong::kTruncate
                              : data::TooLong::kError;
}

[[noreturn]] void refuse_classes(const std::vector<std::string>& here,
                                 const std::vector<std::string>& there,
                                 const std::string& where) {
  throw Error(
      ExitCode::kData,
      fmt::format("the classes are other ones than the model's: {} here, {} there",
                  shown_classes(here), shown_classes(there)),
      where, "data with the model's classes: folders of the same names");
}

}  // namespace

std::unique_ptr<data::Source> open_source(const ModelFamily& family,
                                          const std::vector<std::string>& paths,
                                          const Settings& settings,
                                          const Tokenize& tokenize) {
  if (family.task == Task::kImages) return std::make_unique<data::ImageSource>(paths);
  const data::Texts texts = settings.bytes ? data::Texts::kAny
                            : tokenize     ? data::Texts::kPlainOrGzip
                                           : data::Texts::kPlain;
  auto source = std::make_unique<data::TokenSource>(paths, texts);
  if (!tokenize || settings.bytes || !source->is_text()) return source;
  const TokenizedText text = tokenize(*source);
  if (!text.are_examples) return std::make_unique<data::TokenSource>(text.paths);
  return std::make_unique<data::ExampleSource>(
      data::ExampleFiles{text.paths, text.targets, text.index, source->paths(),
                         text.shapes},
      too_long_named(settings.too_long));
}

bool is_text(const ModelFamily& family, int64_t vocab) {
  return family.task == Task::kLanguage && vocab == data::TokenFile::kTextVocab;
}

void fit_to_data(ModelShape& shape, const data::Source& source) {
  if (lacks_image_size(shape)) set_image_size(shape, source.image_size());
  if (shape.vocab() == 0 && source.vocab_size() > 0) shape.set_vocab(source.vocab_size());
  if (shape.vocab() == 0) {
    throw Error(ExitCode::kUsage, "vocab is missing, and these files do not tell it",
                source.where(), "--vocab N");
  }
}

void fit_to_data(ModelShape& shape, const ModelFamily& family, const Settings& settings) {
  if (shape.vocab() > 0 && !lacks_image_size(shape)) return;
  if (!settings.tokenizer.empty() && family.task == Task::kLanguage) {
    const Tokenizer tokenizer(require_tokenizer(settings.tokenizer, "--tokenizer"),
                              child_command(settings.python));
    return shape.set_vocab(tokenizer.vocab());
  }
  if (!settings.data.empty())
    return fit_to_data(shape, *open_source(family, settings.data, settings));
  const bool is_of_images = family.task == Task::kImages;
  if (shape.vocab() == 0)
    shape.set_vocab(is_of_images ? kUsualClasses : data::TokenFile::kTextVocab);
  if (lacks_image_size(shape)) set_image_size(shape, kUsualImageSize);
}

// Where the largest labels are missing the names end earlier.
void require_classes(const data::Source& source,
                     const std::vector<std::string>& classes) {
  const std::vector<std::string> here = source.class_names();
  const bool is_part = here.size() <= classes.size() &&
                       std::ranges::equal(here, classes | std::views::take(here.size()));
  if (!classes.empty() && !is_part) refuse_classes(here, classes, source.where());
}

void require_image_size(const ModelShape& shape, const std::string& where) {
  if (lacks_image_size(shape))
    throw Error(
        ExitCode::kUsage,
        fmt::format("{} is missing: this model does not tell it", shape.keys.image_size),
        where, fmt::format("--model-config {}=N", shape.keys.image_size));
}

data::SampleShape sample_shape(const ModelFamily& family, const ModelShape& shape,
                               const Settings& settings) {
  return {.seq_len = shape.seq_len,
          .packs = settings.pack && family.takes_documents,
          .image_size = shape.image_size()};
}

}  // namespace zero::launcher
