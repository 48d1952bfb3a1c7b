#include "engine/comm/same_lines.h"

#include <array>
#include <map>
#include <vector>

#include "base/hash.h"
#include "zero/errors.h"

namespace zero {
namespace {

using Values = std::map<std::string, std::string>;

Values parse(const std::string& text) {
  Values values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find('\t');
    values[line.substr(0, end)] += line.substr(end);
  }
  return values;
}

// "lr (rank 2), clip (ranks 1, 3)": what differs from rank 0.
std::string differences(const std::vector<std::string>& text_of_rank) {
  const Values first = parse(text_of_rank.front());
  std::map<std::string, std::vector<int>> ranks_of;
  for (size_t rank = 1; rank < text_of_rank.size(); ++rank) {
    const Values other = parse(text_of_rank[rank]);
    for (const auto& [name, value] : first) {
      const auto found = other.find(name);
      if (found == other.end() || found->second != value)
        ranks_of[name].push_back(static_cast<int>(rank));
    }
    for (const auto& [name, value] : other) {
      if (!first.contains(name)) ranks_of[name].push_back(static_cast<int>(rank));
    }
  }
  std::string text;
  for (const auto& [name, ranks] : ranks_of) {
    text +=
        (text.empty() ? "" : ", ") + name + (ranks.size() > 1 ? " (ranks " : " (rank ");
    for (size_t i = 0; i < ranks.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    text += ")";
  }
  return text;
}

}  // namespace

void require_same_lines(const Lines& lines, const std::string& what,
                        const std::string& cure, Ranks& ranks) {
  if (ranks.size() == 1) return;
  const std::string text = lines.text();
  const auto hash = static_cast<int64_t>(hash_of(text.data(), text.size()) >> 1);
  // The largest hash and the largest of the negative ones: the smallest.
  std::array<int64_t, 2> extremes{hash, -hash};
  ranks.all_reduce(extremes, ReduceOp::kMax, what);
  if (extremes[0] == -extremes[1]) return;
  throw Error(ExitCode::kDiverged, what + ": " + differences(ranks.gather(text)),
              "zero::Engine, compared with rank 0", cure);
}

}  // namespace zero
