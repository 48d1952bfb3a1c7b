#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/settings/config.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// Settings that are each allowed and do not fit together, or do not fit the context.
struct Conflict {
  std::vector<std::string> keys;
  std::string text;
};

std::vector<Conflict> find_conflicts(const Settings& settings,
                                     const ConfigContext& context);

// The part that depends on the number of ranks: batch arithmetic, deterministic sums.
std::vector<Conflict> find_rank_conflicts(const Settings& settings, int num_ranks);

}  // namespace zero::launcher
