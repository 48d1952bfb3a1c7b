#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// What to do, with our names marked, and the names of others that it answers. To answer
// one more name, add it to the line that says what to do.
struct Translation {
  std::string advice, foreign_names;
};
using Translations = std::vector<Translation>;

// A setting of ours that has the same meaning.
const Translations& same_here();
// What needs no setting, or does not exist, with what to do instead.
const Translations& not_here();

}  // namespace zero::launcher
