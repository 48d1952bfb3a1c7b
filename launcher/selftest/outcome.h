#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/doctor/finding.h"
#include "launcher/selftest/lab.h"

namespace zero::launcher {

struct SelftestResult {
  std::string promise;
  bool is_kept = false;
  std::string text;  // what was compared, or why it is not kept
  double seconds = 0;
};

struct SelftestReport {
  Diagnosis machine;
  Trial trial;
  std::vector<SelftestResult> results;
  double seconds = 0;

  int64_t num_broken() const;
};

// "  ok      2 ranks are as one    6 losses and norms, ...   3.1 s", with a line end.
std::string to_line(const SelftestResult& result);

// The block to send, with line ends; one JSON object in a line.
std::string to_text(const SelftestReport& report);
std::string to_json_line(const SelftestReport& report);

// A text in which whatever stands on the left gives way to what stands on the right: for
// names of hosts, users and folders. Names of one or two letters stay, which are in many
// words.
std::string without(std::string text,
                    const std::vector<std::pair<std::string, std::string>>& names);

// The page of `zero_launch selftest --help`.
std::string selftest_help();

}  // namespace zero::launcher
