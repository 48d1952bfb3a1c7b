#include "engine/comm/agreement.h"

#include <array>
#include <map>
#include <new>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "zero/errors.h"

namespace zero {
namespace {

// An error as texts: its kind ("" for a file's, kOther, else the exit code) and its
// parts.
using Parts = std::array<std::string, 5>;

constexpr char kOther[] = "other";

Parts parts_of_current_exception() {
  try {
    throw;
  } catch (const FileError& error) {
    return {"", error.file(), error.fqn(), error.problem(), error.cure()};
  } catch (const Error& error) {
    return {std::to_string(static_cast<int>(error.code())), error.where(), "",
            error.problem(), error.cure()};
  } catch (const std::bad_alloc&) {
    return {std::to_string(static_cast<int>(ExitCode::kEnvironment)), "", "",
            "out of host memory", ""};
  } catch (const std::exception& error) {
    return {kOther, "", "", error.what(), ""};
  } catch (...) {
    return {kOther, "", "", "something that is no std::exception", ""};
  }
}

[[noreturn]] void rethrow(const Parts& parts) {
  const auto& [kind, where, fqn, problem, cure] = parts;
  if (kind.empty()) throw FileError(where, fqn, problem, cure);
  if (kind == kOther) throw std::runtime_error(problem);
  throw Error(static_cast<ExitCode>(std::stoi(kind)), problem, where, cure);
}

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

void Agreement::run(const std::function<void()>& body) {
  Parts parts;
  bool failed = true;
  try {
    body();
    failed = false;
  } catch (...) {
    if (size() == 1) throw;
    parts = parts_of_current_exception();
  }
  int64_t first = failed ? rank() : size();
  ranks_.all_reduce(std::span(&first, 1), ReduceOp::kMin, subject_);
  if (first == size()) return;
  const int culprit = static_cast<int>(first);
  for (std::string& part : parts) part = ranks_.broadcast(part, culprit);
  if (culprit > 0 || parts[0].empty() || parts[0] == kOther)
    parts[3] = "rank " + std::to_string(culprit) + ": " + parts[3];
  rethrow(parts);
}

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
              "compared with rank 0", cure);
}

}  // namespace zero
