#include "launcher/selftest/outcome.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/run/lines.h"
#include "launcher/settings/help.h"

namespace zero::launcher {
namespace {

std::string summary(const SelftestReport& report) {
  const int64_t num_broken = report.num_broken();
  return fmt::format("{} of {} promises kept, {:.0f} s",
                     std::ssize(report.results) - num_broken, report.results.size(),
                     report.seconds);
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

int64_t SelftestReport::num_broken() const {
  return std::ranges::count(results, false, &SelftestResult::is_kept);
}

std::string to_line(const SelftestResult& result) {
  return fmt::format("  {:<8}{:<40}{} ({:.1f} s)\n", result.is_kept ? "ok" : "FAILED",
                     result.promise, result.text, result.seconds);
}

std::string to_text(const SelftestReport& report) {
  std::string text =
      "--- report to send: no names of hosts, users or folders are in it\n";
  text += fmt::format("zero {} selftest: {}\n", program_version(), summary(report));
  for (const FindingGroup& group : report.machine) {
    text += group.name + '\n';
    for (const Finding& finding : group.findings)
      text += fmt::format("  {:<14}{}\n", finding.name, finding.text);
  }
  text += "settings: " + joined(told_settings(report.trial.settings)) + '\n';
  text += "changed for the test: " + joined(report.trial.changes) + '\n';
  for (const SelftestResult& result : report.results) text += to_line(result);
  return text + "---\n";
}

std::string to_json_line(const SelftestReport& report) {
  Row machine = Row::array(), results = Row::array();
  for (const FindingGroup& group : report.machine) {
    for (const Finding& finding : group.findings)
      machine.push_back(
          {{"group", group.name}, {"name", finding.name}, {"text", finding.text}});
  }
  for (const SelftestResult& result : report.results) {
    results.push_back({{"promise", result.promise},
                       {"kept", result.is_kept},
                       {"text", result.text},
                       {"seconds", result.seconds}});
  }
  const Row object = {{"version", program_version()},
                      {"kept", report.num_broken() == 0},
                      {"seconds", report.seconds},
                      {"machine", machine},
                      {"settings", told_settings(report.trial.settings)},
                      {"changes", report.trial.changes},
                      {"results", results}};
  return json_text(object) + "\n";
}

std::string without(std::string text,
                    const std::vector<std::pair<std::string, std::string>>& names) {
  constexpr size_t kShortest = 3;
  for (const auto& [name, word] : names) {
    if (name.size() < kShortest) continue;
    for (size_t at = 0; (at = text.find(name, at)) != text.npos; at += word.size())
      text.replace(at, name.size(), word);
  }
  return text;
}

std::string selftest_help() {
  return "zero_launch selftest [--config FILE] [--any-setting value]... [--to FILE] "
         "[--json]\n\n"
         "Trains a small model again and again, on 1, 2 and 4 ranks of this machine, and "
         "compares bits.\n"
         "Settings of train count, made small: what is changed stands in the "
         "report.\n\n" +
         help_line("--config FILE", "read settings from this file") +
         help_line("--to FILE", "write the report there, too: a new file") +
         help_line("--json", "print one JSON object; progress goes to stderr") +
         help_line("--help", "this page") +
         "\nExit code 0: all promises are kept; 4: one is not, and the folder of its "
         "runs "
         "stays.\n";
}

}  // namespace zero::launcher
