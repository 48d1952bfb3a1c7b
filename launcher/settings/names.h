#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// The candidate that `name` most likely means, or "" when none is near: at most a third
// of its letters (two in a short word) added, dropped, changed or swapped; else the
// shortest that has a word which begins with it. '-' and '_' are the same.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

// "; nearest: adam; allowed: adam, step or comm", where one is near.
std::string offer(const std::string& name, const std::vector<std::string>& known);

// What a setting of another tool is called here, as advice, our names marked: "here:
// @global_batch, samples of a step on all ranks together". "" for names that no tool we
// know has.
std::string foreign_name_advice(const std::string& name);
// The same for a name that is misspelt: "learning_rate: here: @lr".
std::string nearly_foreign_name_advice(const std::string& name);

// The allowed word that another one most likely means, as nearest() or in the words of
// other tools: fp32 for float32. "" when none does.
std::string nearest_value(const std::string& word,
                          const std::vector<std::string>& allowed);

}  // namespace zero::launcher
