#pragma once

#include <string>
#include <vector>

#include "checkpoint/own_folder.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// A folder of its own with data, in which this very program trains. It goes with the
// object, unless it is kept.
class Lab {
 public:
  // Throws Error(kCheckpoint) where no folder can be made (TMPDIR, else /tmp).
  // `environment`: of the runs; settings in it do not count.
  Lab(const Settings& settings, std::vector<std::string> environment);

  std::string path(const std::string& name) const {
    return folder_.folder().path_of(name);
  }
  const std::string& folder() const { return folder_.path(); }
  void keep() { folder_.keep(); }

  // A run, or more of it: one rank by itself, several under mpirun. Throws Error that has
  // the run's own words when it does not end well, and as run_child() does.
  void train(const std::string& run, int num_ranks,
             const std::vector<std::string>& flags = {}) const;

  // What `eval` prints about a run's newest checkpoint.
  std::string eval(const std::string& run) const;

 private:
  std::string start(int num_ranks, std::vector<std::string> words) const;

  checkpoint::OwnFolder folder_;
  std::vector<std::string> environment_;
};

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
