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

std::string json_line(const PredictionNames& names, int64_t image,
                      std::span<const float> logits) {
  nlohmann::ordered_json line = {{"image", names.image(image)}};
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); })) {
    line["index"] = nullptr;
    line["probability"] = nullptr;
    return json_text(line) + '\n';
  }
  const auto largest =
      static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
  if (largest < names.classes.size()) line["class"] = names.classes[largest];
  line["index"] = largest;
  line["probability"] = probability_of(largest, logits);
  return json_text(line) + '\n';
}

std::string npy_head(int64_t num_images, int64_t num_classes) {
  constexpr std::string_view kMagic("\x93NUMPY\1\0", 8);
  constexpr size_t kPrefix = kMagic.size() + 2, kAlignment = 64;
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                  num_images, num_classes);
  while ((kPrefix + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  const std::string length = {static_cast<char>(header.size() & 0xff),
                              static_cast<char>(header.size() >> 8)};
  return std::string(kMagic) + length + header;
}

}  // namespace

PredictionFormat json_lines(PredictionNames names) {
  return {"", std::bind_front(json_line, std::move(names))};
}

PredictionFormat npy_array(int64_t num_images, int64_t num_classes) {
  return {npy_head(num_images, num_classes), [](int64_t, std::span<const float> logits) {
            return std::string(reinterpret_cast<const char*>(logits.data()),
                               logits.size_bytes());
          }};
}

}  // namespace zero::launcher
