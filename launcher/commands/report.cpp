#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/commands/verbs.h"
#include "launcher/report/page.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

constexpr char kWhatFrom[] = "DIR: the folder of a run (its --out)";

History history_of(const std::string& run) {
  const auto refuse = [](const std::string& problem, const std::string& where) {
    throw Error(ExitCode::kUsage, problem, where, kWhatFrom);
  };
  const std::string log = run + "/metrics.jsonl";
  std::error_code error;
  if (!fs::is_directory(run, error)) refuse(no_folder("DIR", run), run);
  if (!fs::is_regular_file(log, error))
    refuse("this is no run's folder: it has no metrics.jsonl", run);
  std::ifstream file(log);
  if (!file) refuse("the run's metrics cannot be read", log);
  History history = read_history(file);
  if (history.starts.empty() && history.steps.empty())
    refuse("there is no record of a run", log);
  return history;
}

// "runs/a/" and "." are named as people would.
std::string name_of(const std::string& run) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(run, error);
  return checkpoint::split_path(error ? run : path.string()).name;
}

// All of it or nothing, so that a browser that looks again sees a whole page.
void write_page(const std::string& path, const std::string& page) {
  const auto [above, name] = checkpoint::split_path(path);
  std::error_code error;
  if (!fs::is_directory(above, error))
    throw Error(ExitCode::kUsage, no_folder("--to", above), path,
                "--to FILE in a folder that is there");
  try {
    checkpoint::replace_text(checkpoint::Folder(above), name, page, kReportBegin);
  } catch (const checkpoint::CheckpointError& error) {
    throw Error(ExitCode::kCheckpoint, "the report cannot be written: " + error.problem(),
                path, "--to FILE: a new one in a folder with room, or an older report");
  }
}

// All of them, named by their folders; by their paths where two folders are named alike.
std::vector<NamedHistory> histories_of(const CommandLine& line) {
  std::vector<std::string> paths = {line.from};
  paths.insert(paths.end(), line.folders.begin(), line.folders.end());
  std::set<std::string> names;
  for (const std::string& path : paths) names.insert(name_of(path));
  std::vector<NamedHistory> runs;
  for (const std::string& path : paths)
    runs.push_back(
        {names.size() == paths.size() ? name_of(path) : path, history_of(path)});
  return runs;
}

// A page in HTML of what a run has told so far, or several. Throws Error(kUsage) where
// there is no run, Error(kCheckpoint) where the page cannot be written.
int report(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "report");
  if (!line.folders.empty() && line.to.empty())
    throw Error(ExitCode::kUsage, "a page of several runs has no folder of its own",
                "zero_launch report A B", "--to FILE");
  const std::vector<NamedHistory> runs = histories_of(line);
  const std::string to = line.to.empty() ? line.from + "/report.html" : line.to;
  const std::string page = runs.size() == 1 ? report_page(runs[0].history, runs[0].name)
                                            : comparison_page(runs);
  write_page(to, page);
  const std::string what = runs.size() == 1
                               ? fmt::format("{} steps", runs[0].history.last_step())
                               : fmt::format("{} runs", runs.size());
  print_line(fmt::format("report of {}: {} ({})", what, printable(to),
                         short_bytes(static_cast<int64_t>(page.size()))));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb report_verb() {
  return {.name = "report",
          .summary = "a page of curves, samples and settings of runs (report DIR...)",
          .run = report,
          .head =
              "zero_launch report DIR [--to FILE]\n"
              "zero_launch report A B... --to FILE",
          .lines = {{"DIR", "a run's folder; the run may be at work"},
                    {"A B...", "up to six runs, side by side"},
                    {"--to FILE", "the page, for a browser [DIR/report.html]"}},
          .folder = "the folder of a run, its --out",
          .num_more = kMostRuns - 1};
}

}  // namespace zero::launcher
