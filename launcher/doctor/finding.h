#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launcher/bench/rounds.h"

// What a machine offers, judged.
namespace zero::launcher {

// It is well; it works and may be better, or may surprise; something will not work.
enum class Mark { kOk, kNote, kBad };

struct Finding {
  Mark mark = Mark::kOk;
  std::string name;  // "cores"
  std::string text;  // what is there; no name of a host, a user or a path
  std::string cure;  // of all that is not ok
  Row numbers = Row::object();
};
using Findings = std::vector<Finding>;

struct FindingGroup {
  std::string name;  // "processor"
  Findings findings;
};
using Diagnosis = std::vector<FindingGroup>;

// A group whose machine could not be looked at is one finding that says why, never a
// throw.
FindingGroup look_at(const std::string& group, const std::function<Findings()>& look);

}  // namespace zero::launcher
