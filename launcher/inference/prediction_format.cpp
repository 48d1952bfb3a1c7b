#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/inference/predict.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

// Of softmax.
double probability_of(size_t chosen, std::span<const float> logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - logits[chosen]);
  return 1 / sum;
}

class JsonLines : public PredictionFormat {
 public:
  explicit JsonLines(PredictionNames names) : names_(std::move(names)) {}

  std::string head() const override { return ""; }

  std::string row(int64_t image, std::span<const float> logits) const override {
    const auto largest =
        static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
    nlohmann::ordered_json line = {{"image", names_.image(image)}};
    if (largest < names_.classes.size()) line["class"] = names_.classes[largest];
    line["index"] = largest;
    line["probability"] = probability_of(largest, logits);
    return json_text(line) + '\n';
  }

 private:
  const PredictionNames names_;
};

class NpyArray : public PredictionFormat {
 public:
  NpyArray(int64_t num_images, int64_t num_classes)
      : num_images_(num_images), num_classes_(num_classes) {}

  std::string head() const override {
    constexpr size_t kPrefix = 10, kAlignment = 64;
    std::string header =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                    num_images_, num_classes_);
    while ((kPrefix + header.size() + 1) % kAlignment != 0) header += ' ';
    header += '\n';
    const std::string magic = {'\x93',
                               'N',
                               'U',
                               'M',
                               'P',
                               'Y',
                               '\1',
                               '\0',
                               static_cast<char>(header.size() & 0xff),
                               static_cast<char>(header.size() >> 8)};
    return magic + header;
  }

  std::string row(int64_t, std::span<const float> logits) const override {
    return {reinterpret_cast<const char*>(logits.data()), logits.size_bytes()};
  }

 private:
  const int64_t num_images_, num_classes_;
};

}  // namespace

std::unique_ptr<PredictionFormat> json_lines(PredictionNames names) {
  return std::make_unique<JsonLines>(std::move(names));
}

std::unique_ptr<PredictionFormat> npy_array(int64_t num_images, int64_t num_classes) {
  return std::make_unique<NpyArray>(num_images, num_classes);
}

}  // namespace zero::launcher
