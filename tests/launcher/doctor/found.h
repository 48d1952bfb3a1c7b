#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "launcher/doctor/finding.h"

// The words in which the tests of this room are told.
namespace zero::launcher {

inline const Finding& found(const Findings& findings, const std::string& name) {
  const auto finding = std::ranges::find(findings, name, &Finding::name);
  if (finding == findings.end()) throw std::runtime_error("nothing is said of " + name);
  return *finding;
}

// The mark of what is said of `name`; what is not ok has a cure.
template <class Facts>
Mark mark_of(const Facts& facts, const std::string& name) {
  const Findings findings = judge(facts);
  const Finding& finding = found(findings, name);
  EXPECT_FALSE(finding.text.empty()) << name;
  EXPECT_EQ(finding.cure.empty(), finding.mark == Mark::kOk) << name << finding.text;
  return finding.mark;
}

template <class Facts>
void expect_all_ok(const Facts& facts) {
  for (const Finding& finding : judge(facts))
    EXPECT_EQ(finding.mark, Mark::kOk) << finding.name << ": " << finding.text;
}

}  // namespace zero::launcher
