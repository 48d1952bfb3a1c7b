#pragma once
#include <string>
#include <vector>

#include "launcher/settings/settings.h"

namespace zero::launcher {

// A folder of its own with data, in which this very program trains.
class Lab {
 public:
  // Throws Error(kCheckpoint) where no folder can be made (TMPDIR, else /tmp).
  // `environment`: of the runs; settings in it do not count.
  Lab(const Settings& settings, std::vector<std::string> environment);
  ~Lab();  // the folder goes, unless it is kept
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }
  void keep() { is_kept_ = true; }

  // A run, or more of it: one rank by itself, several under mpirun. Throws Error that has
  // the run's own words when it does not end well, and as run_child() does.
  void train(const std::string& run, int num_ranks,
             const std::vector<std::string>& flags = {}) const;

  // What `eval` prints about a run's newest checkpoint.
  std::string eval(const std::string& run) const;

 private:
  std::string start(int num_ranks, std::vector<std::string> words) const;

  std::string folder_;
  std::vector<std::string> environment_;
  bool is_kept_ = false;
};

}  // namespace zero::launcher
