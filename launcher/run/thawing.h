#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/settings/rules.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// What --unfreeze-at names, while a run goes on. The engine was made with these patterns
// as Options::thaws.
class Thawing {
 public:
  explicit Thawing(const std::vector<std::string>& rules);

  // Train what is due by the steps that are done. A line for each pattern that thaws with
  // the step that comes, and the number of its parameters. Collective. Throws
  // Error(kUsage) while nothing is trained.
  std::vector<std::string> thaw(Engine& engine);
  // What is frozen for now: "model.layers.* until step 1000 is done, 24 parameter(s)".
  std::vector<std::string> waiting(Engine& engine) const;

 private:
  std::vector<Thaw> waiting_;
  bool is_checked_ = false;  // is anything trained?
};

}  // namespace zero::launcher
