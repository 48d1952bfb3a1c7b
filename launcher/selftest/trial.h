#pragma once
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// What the runs of a selftest have in common.
struct Trial {
  static constexpr int64_t kSteps = 6, kHalf = 3;

  Settings settings;                 // without data and out
  std::vector<std::string> changes;  // of what was asked for: "layers 48 -> 2"
};

// The user's own settings, made small: two layers, short samples, a few steps; where
// nothing was said of a model's size, the smallest preset. What is about a run's place
// and way (data, out, resume, ...) goes, and so does what cannot be compared between
// ranks or when a run ends half way (grad_dtype bf16, a schedule). `num_gpus`: of this
// machine.
Trial make_trial(const Settings& asked, const ModelFamilies& models, int num_gpus);

// "lr = 0.001": what differs from the defaults, and is no path.
std::vector<std::string> told_settings(const Settings& settings);

// Words that repeat with changes: there is something to learn.
std::string text_of_trial(int seed, int64_t bytes);

}  // namespace zero::launcher
