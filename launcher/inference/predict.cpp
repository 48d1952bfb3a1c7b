#include "launcher/inference/predict.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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
  const int64_t per_pass = plan.micro_batch * plan.ranks;
  const Activity::Stretch stretch("prediction");
  for (int64_t done = 0; done < num_samples; done += per_pass) {
    const int64_t first = done + plan.rank * plan.micro_batch;
    std::vector<int64_t> indices(
        std::clamp<int64_t>(num_samples - first, 0, plan.micro_batch));
    std::iota(indices.begin(), indices.end(), first);
    Batch batch = samples.empty_batch(plan.micro_batch);
    samples.read(indices, batch);
    const std::vector<float> logits = runner.logits(batch);
    const size_t num_classes = logits.size() / static_cast<size_t>(plan.micro_batch);
    const size_t numel = indices.size() * num_classes;
    int64_t image = done;
    for (const std::string& part :
         ranks.gather(bytes_of(std::span(logits).first(numel)))) {
      std::vector<float> rows(part.size() / sizeof(float));
      std::memcpy(rows.data(), part.data(), part.size());
      for (size_t begin = 0; begin < rows.size(); begin += num_classes)
        on_logits(image++, std::span(rows).subspan(begin, num_classes));
    }
  }
}

}  // namespace zero::launcher
