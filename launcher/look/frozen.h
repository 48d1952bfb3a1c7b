#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zero::launcher {

// Parameters that two neighbouring checkpoints have without an optimizer's state, while
// others have one: they were frozen.
struct FrozenTensors {
  int64_t num_same = 0;  // in each pair that has them
  // "h.0.weight is another in step_000000000003 than in step_000000000002".
  std::vector<std::string> changed;
};

// Compares the hashes of their values, as manifests tell them: those of other pieces, as
// another number of ranks saves them, are passed over, and so are folders without a
// manifest.
FrozenTensors compare_frozen_tensors(const std::vector<std::string>& folders);

// A line for each that changed, or one that tells how many are the same; "" where nothing
// was frozen.
std::string to_text(const FrozenTensors& frozen);
nlohmann::json to_json(const FrozenTensors& frozen);  // {"same": 3, "changed": []}

}  // namespace zero::launcher
