#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "launcher/doctor/finding.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/lines.h"
#include "launcher/settings/help.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

const char* name_of(Mark mark) {
  return mark == Mark::kOk ? "ok" : mark == Mark::kNote ? "note" : "bad";
}

std::string to_lines(const Finding& finding) {
  std::string text =
      fmt::format("  {:<6}{:<14}{}\n", name_of(finding.mark), finding.name, finding.text);
  if (finding.mark != Mark::kOk) text += fmt::format("{:8}try: {}\n", "", finding.cure);
  return text;
}

Row to_row(const std::string& group, const Finding& finding) {
  Row row = {{"group", group},
             {"name", finding.name},
             {"mark", name_of(finding.mark)},
             {"text", finding.text}};
  if (finding.mark != Mark::kOk) row["cure"] = finding.cure;
  row.update(finding.numbers);
  return row;
}

}  // namespace

FindingGroup look_at(const std::string& group, const std::function<Findings()>& look) {
  try {
    return {group, look()};
  } catch (...) {
    const Error error = describe(std::current_exception());
    return {group,
            {{Mark::kBad, group, "cannot be looked at: " + error.problem(),
              error.cure().empty() ? "are /proc and /sys mounted?" : error.cure()}}};
  }
}

int64_t count(const Diagnosis& diagnosis, Mark mark) {
  int64_t number = 0;
  for (const FindingGroup& group : diagnosis)
    number += std::ranges::count(group.findings, mark, &Finding::mark);
  return number;
}

std::string to_page(const Diagnosis& diagnosis, double seconds) {
  std::string page = "zero_launch doctor\n";
  for (const FindingGroup& group : diagnosis) {
    page += '\n' + group.name + '\n';
    for (const Finding& finding : group.findings) page += to_lines(finding);
  }
  return printable(page + fmt::format("\n{} ok, {} to note, {} bad; {:.1f} s\n",
                                      count(diagnosis, Mark::kOk),
                                      count(diagnosis, Mark::kNote),
                                      count(diagnosis, Mark::kBad), seconds));
}

std::string to_line(const Diagnosis& diagnosis, double seconds) {
  Row findings = Row::array();
  for (const FindingGroup& group : diagnosis) {
    for (const Finding& finding : group.findings)
      findings.push_back(to_row(group.name, finding));
  }
  const Row object = {{"ok", count(diagnosis, Mark::kOk)},
                      {"notes", count(diagnosis, Mark::kNote)},
                      {"bad", count(diagnosis, Mark::kBad)},
                      {"seconds", seconds},
                      {"findings", findings}};
  return json_text(object) + "\n";
}

std::string doctor_help() {
  return "zero_launch doctor [--out DIR] [--json]\n"
         "zero_launch doctor --hosts FILE            the hosts of --ranks N --hosts "
         "FILE\n"
         "mpirun -n RANKS zero_launch doctor         your own mpirun, or srun, is "
         "tried\n\n"
         "What this machine offers, each with a mark: ok, note (it may be better, or may "
         "surprise), bad.\n\n" +
         help_line("--out DIR", "the folder whose disk is looked at and timed [.]") +
         help_line("--hosts FILE", "look at these hosts alone: name, ssh, program") +
         help_line("--json", "print one JSON object") + help_line("--help", "this page") +
         "\nExit code 0: nothing is bad; 3: something is.\n";
}

}  // namespace zero::launcher
