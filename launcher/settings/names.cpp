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
  static const std::map<std::string, std::string> others = {
      {"float32", "fp32"},
      {"float", "fp32"},
      {"float16", "fp16"},
      {"half", "fp16"},
      {"bfloat16", "bf16"},
      {"gpu", "cuda"},
      {"full", "unit"},
      {"false", "none"},
      {"off", "none"},
      {"true", "all"},
      {"on", "all"},
      {"adamw_torch", "adamw"},
      {"adamw_torch_fused", "adamw"},
      {"adamw_hf", "adamw"},
      {"fusedadam", "adamw"},
      {"cpu_adam", "adamw"},
      {"deepspeedcpuadam", "adamw"},
      {"polynomial_decay", "linear"},
      {"polynomial", "linear"},
      {"constant_with_warmup", "constant"},
      {"cosine_with_restarts", "cosine"},
      {"cosine_with_min_lr", "cosine"},
      {"warmup_stable_decay", "wsd"},
      {"yes", "all"},
      {"no", "none"}};
  const auto other = others.find(word);
  const bool is_known =
      other != others.end() && std::ranges::count(allowed, other->second) > 0;
  if (is_known && word.find("cpu") != word.npos)
    return other->second + ", with offload optimizer or all";
  if (is_known) return other->second;
  std::vector<std::string> words;  // "every:K" is none
  std::ranges::copy_if(allowed, std::back_inserter(words), [](const std::string& each) {
    return each.find(':') == each.npos;
  });
  return nearest(word, words);
}

}  // namespace zero::launcher
