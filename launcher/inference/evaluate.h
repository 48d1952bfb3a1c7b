#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "launcher/data/batches.h"
#include "launcher/data/samples.h"
#include "launcher/settings/settings.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

class Runner;
struct Scores;

struct Evaluation {
  double loss = 0;  // mean over all targets
  int64_t num_targets = 0;
  std::optional<double> accuracy = {};  // the share of right ones, where it is known
};

// The samples of an evaluation: as many as the settings say, or all.
int64_t samples_to_evaluate(const data::Samples& samples, const Settings& settings);

struct EvaluationHooks {
  // Asked between passes (collectively, if at all); nothing is the result then.
  std::function<bool()> is_stopped = [] { return false; };
  // Gets, of this rank's pass, each target's loss, and which samples these are: the
  // first, and how many. May be a collective call.
  std::function<void(const Batch& batch, const Scores& scores, int64_t first,
                     int64_t count)>
      on_targets = {};
};

// The mean loss over the first `num_samples` samples. Collective; the ranks share the
// work, and get the same bits whatever their number.
std::optional<Evaluation> evaluate(Runner& runner, Ranks& ranks,
                                   const data::Samples& samples, const BatchPlan& plan,
                                   int64_t num_samples,
                                   const EvaluationHooks& hooks = {});

}  // namespace zero::launcher
