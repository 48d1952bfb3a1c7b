#include "launcher/selftest/lab.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/process/child.h"
#include "launcher/process/environment.h"
#include "launcher/process/start_ranks.h"
#include "launcher/selftest/trial.h"
#include "launcher/settings/setting_table.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

constexpr double kRunLimit = 300;  // seconds that a run may take; it is none of the
                                   // promises

std::string make_folder() {
  std::error_code error;
  std::string pattern =
      (fs::temp_directory_path(error) / "zero_selftest_XXXXXX").string();
  if (!error && mkdtemp(pattern.data())) return pattern;
  throw Error(ExitCode::kCheckpoint,
              std::string("cannot make a folder: ") +
                  (error ? error.message() : std::strerror(errno)),
              "TMPDIR", "TMPDIR=DIR: a folder that is there and may be written");
}

void write(const std::string& path, const std::string& text) {
  if (std::ofstream(path) << text << std::flush) return;
  throw Error(ExitCode::kCheckpoint, "cannot write a file", path, "TMPDIR=DIR");
}

// The line that says what went wrong: ours, else the last one.
std::string reason_in(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("zero: ")) return line.substr(6);
    if (line.find_first_not_of(" -\t") != line.npos) last = line;
  }
  return last;
}

}  // namespace

Lab::Lab(const Settings& settings, std::vector<std::string> environment)
    : folder_(make_folder()), environment_(std::move(environment)) {
  std::erase_if(environment_,
                [](const std::string& entry) { return entry.starts_with("ZERO_"); });
  const auto more = mpirun_variables(environment_, geteuid() == 0);
  environment_.insert(environment_.end(), more.begin(), more.end());
  write(path("data.txt"), text_of_trial(1, 20'000));
  write(path("eval.txt"), text_of_trial(2, 5'000));
  Settings with_data = settings;
  with_data.data = {path("data.txt")};
  with_data.eval_data = {path("eval.txt")};
  write(path("run.toml"), to_toml(with_data));
}

Lab::~Lab() {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(folder_, ignored);
}

void Lab::train(const std::string& run, int num_ranks,
                const std::vector<std::string>& flags) const {
  std::vector<std::string> words = {"train", "--config", path("run.toml"), "--out",
                                    path(run)};
  words.insert(words.end(), flags.begin(), flags.end());
  start(num_ranks, std::move(words));
}

std::string Lab::eval(const std::string& run) const {
  return start(1, {"eval", "--from", path(run), "--threads=1"});
}

std::string Lab::start(int num_ranks, std::vector<std::string> words) const {
  const std::string program = path_of_this_program();
  if (num_ranks == 1) {
    words.insert(words.begin(), program);
    words.push_back("--ranks=1");
  } else {
    words = mpirun_words({num_ranks, "", words, ""}, program, environment_);
  }
  const ChildOutcome outcome = run_child({std::move(words), environment_, kRunLimit});
  if (outcome.is_late)
    throw Error(
        ExitCode::kEnvironment,
        fmt::format("{} rank(s) were not done in {:.0f} s", num_ranks, kRunLimit));
  if (outcome.code == 127)
    throw Error(ExitCode::kEnvironment, "mpirun cannot be started");
  if (outcome.code != 0)
    throw Error(ExitCode::kTraining,
                fmt::format("{} rank(s) ended with code {}: {}", num_ranks, outcome.code,
                            reason_in(outcome.text)));
  return outcome.text;
}

}  // namespace zero::launcher
