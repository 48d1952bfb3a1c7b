#include "launcher/inference/predict.h"

#include <cstring>

#include "engine/watch/activity.h"
#include "launcher/run/runner.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

std::string bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

void predict(Runner& runner, Ranks& ranks, const data::Samples& samples,
             const BatchPlan& plan, int64_t num_samples, const OnLogits& on_logits) {
  const int64_t rows = plan.micro_batch;
  const Activity::Stretch stretch("prediction");
  for (int64_t pass = 0; pass * plan.ranks * rows < num_samples; ++pass) {
    const int64_t index = pass * plan.ranks + plan.rank;
    const std::vector<float> logits =
        runner.logits(read_micro_batch(samples, rows, index, num_samples));
    const size_t num_classes = logits.size() / static_cast<size_t>(rows);
    const size_t numel = samples_in(index, rows, num_samples) * num_classes;
    int64_t image = pass * plan.ranks * rows;
    for (const std::string& part :
         ranks.gather(bytes_of(std::span(logits).first(numel)))) {
      std::vector<float> of_rank(part.size() / sizeof(float));
      std::memcpy(of_rank.data(), part.data(), part.size());
      for (size_t begin = 0; begin < of_rank.size(); begin += num_classes)
        on_logits(image++, std::span(of_rank).subspan(begin, num_classes));
    }
  }
}

}  // namespace zero::launcher
