#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launcher/data/batches.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

class Runner;

// Told of each image in order: its number, and a logit for each class.
using OnLogits = std::function<void(int64_t image, std::span<const float> logits)>;

// What a model of images says of the first `num_samples` samples. Collective: the ranks
// share the work, and all are told, pass by pass.
void predict(Runner& runner, Ranks& ranks, const data::Samples& samples,
             const BatchPlan& plan, int64_t num_samples, const OnLogits& on_logits);

// How predictions are written: bytes before all, and of each image.
struct PredictionFormat {
  std::string head;
  std::function<std::string(int64_t image, std::span<const float> logits)> row;
};

// What lines of JSON tell of images and classes.
struct PredictionNames {
  std::function<std::string(int64_t image)> image;
  std::vector<std::string> classes;  // empty: nobody knows them
};

// {"image": "cat/1.png", "class": "cat", "index": 0, "probability": 0.98}
PredictionFormat json_lines(PredictionNames names);

// NumPy's: an array (images, classes) fp32 of the logits.
PredictionFormat npy_array(int64_t num_images, int64_t num_classes);

}  // namespace zero::launcher
