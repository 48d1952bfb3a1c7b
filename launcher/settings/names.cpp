#include "launcher/settings/names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

constexpr size_t kShortName = 5;          // letters, in which two slips make another word
constexpr size_t kShortestBeginning = 3;  // that means one word

std::string normalized(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// Letters to add, drop, change or swap with their neighbour (optimal string alignment).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_previous, previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({change, previous[j] + 1, current[j - 1] + 1});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    before_previous = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Does it begin with `wanted`, or does one of its words?
bool begins_with(const std::string& candidate, const std::string& wanted) {
  return candidate.starts_with(wanted) || candidate.find('_' + wanted) != candidate.npos;
}

}  // namespace

bool is_near(const std::string& name, const std::string& other) {
  const bool is_short = name.size() <= kShortName;
  const size_t most = is_short && !std::ranges::is_permutation(name, other) ? 1 : 2;
  return edit_distance(normalized(name), normalized(other)) <=
         std::min(most, name.size() - 1);
}

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.empty()) return "";
  const std::string wanted = normalized(name);
  const auto distance = [&](const std::string& candidate) {
    return edit_distance(wanted, normalized(candidate));
  };
  const auto closest = std::ranges::min_element(candidates, {}, distance);
  if (closest != candidates.end() && is_near(name, *closest)) return *closest;
  std::string best;
  for (const std::string& candidate : candidates) {
    if (wanted.size() >= kShortestBeginning &&
        begins_with(normalized(candidate), wanted) &&
        (best.empty() || candidate.size() < best.size()))
      best = candidate;
  }
  return best;
}

std::string offer(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return (near.empty() ? "" : "; nearest: " + near) + "; allowed: " + alternatives(known);
}

std::string nearest_value(const std::string& word,
                          const std::vector<std::string>& allowed) {
  static const std::vector<std::pair<std::string, std::string>> others = {
      {"fp32", "float32 float"},
      {"fp16", "float16 half"},
      {"bf16", "bfloat16"},
      {"cuda", "gpu"},
      {"unit", "full"},
      {"none", "false off no"},
      {"all", "true on yes"},
      {"adamw", "adamw_torch adamw_torch_fused adamw_hf fusedadam"},
      {"adamw, with offload optimizer or all", "cpu_adam deepspeedcpuadam"},
      {"linear", "polynomial_decay polynomial"},
      {"constant", "constant_with_warmup"},
      {"cosine", "cosine_with_restarts cosine_with_min_lr"},
      {"wsd", "warmup_stable_decay"}};
  for (const auto& [ours, theirs] : others) {
    const bool is_known = std::ranges::count(allowed, ours.substr(0, ours.find(','))) > 0;
    if (is_known && std::ranges::count(split(theirs, ' '), word) > 0) return ours;
  }
  std::vector<std::string> words;  // "every:K" is none
  std::ranges::copy_if(allowed, std::back_inserter(words), [](const std::string& each) {
    return each.find(':') == each.npos;
  });
  return nearest(word, words);
}

}  // namespace zero::launcher
