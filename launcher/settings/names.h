#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// Is one a slip of the other? At most two letters added, dropped, changed or swapped with
// their neighbour; one in a short name, unless no letter is another. '-' and '_' are the
// same.
bool is_near(const std::string& name, const std::string& other);

// The candidate that `name` most likely means: the nearest; where none is near, the
// shortest that has a word which begins with it; else "".
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

// "; nearest: adam; allowed: adam, step or comm", where one is near.
std::string offer(const std::string& name, const std::vector<std::string>& known);

// The allowed word that another one most likely means, as nearest() or in the words of
// other tools: fp32 for float32. "" when none does.
std::string nearest_value(const std::string& word,
                          const std::vector<std::string>& allowed);

}  // namespace zero::launcher
