#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/data/source.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"
#include "launcher/text/token_cache.h"

namespace zero::data {
class TokenSource;
}

// Which data settings ask for, as a family's task reads them.
namespace zero::launcher {

// Makes them of texts.
using Tokenize = std::function<TokenizedText(const data::TokenSource& texts)>;

// Where nothing makes tokens of texts, or with --bytes, their bytes are the tokens.
// Throws DataError.
std::unique_ptr<data::Source> open_source(const ModelFamily& family,
                                          const std::vector<std::string>& paths,
                                          const Settings& settings,
                                          const Tokenize& tokenize = {});

// Are so many tokens those of text, whose bytes are learned?
bool is_text(const ModelFamily& family, int64_t vocab);

// What these data decide of a new model that its config leaves open: the vocabulary, and
// the size of images.
// Throws Error(kUsage) where they do not tell it.
void fit_to_data(ModelShape& shape, const data::Source& source);

// The same of --tokenizer or --data, which may be missing: then of what such a model is
// made for.
void fit_to_data(ModelShape& shape, const ModelFamily& family, const Settings& settings);

// Throws Error(kData) unless the data have these classes, or the first of them; none:
// nobody knows them.
void require_classes(const data::Source& source, const std::vector<std::string>& classes);

// Throws Error(kUsage) for a model of images that does not tell their size.
void require_image_size(const ModelShape& shape, const std::string& where);

// The samples that a model of that family and shape takes.
data::SampleShape sample_shape(const ModelFamily& family, const ModelShape& shape,
                               const Settings& settings);

}  // namespace zero::launcher
