#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "base/processes.h"
#include "base/text.h"
#include "launcher/commands/verbs.h"
#include "launcher/doctor/finding.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/new_file.h"
#include "launcher/selftest/lab.h"
#include "launcher/selftest/outcome.h"
#include "launcher/selftest/promises.h"
#include "launcher/settings/config.h"
#include "zero/errors.h"
#include "zero/gpu.h"

namespace zero::launcher {
namespace {

std::string variable_or_nothing(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// What a report must not hold; longer ones first.
std::vector<std::pair<std::string, std::string>> private_names(const Lab& lab) {
  const std::filesystem::path program = path_of_this_program();
  return {{lab.folder(), "FOLDER"},
          {program.parent_path(), "BIN"},
          {variable_or_nothing("HOME"), "HOME"},
          {host_name(), "HOST"},
          {variable_or_nothing("USER"), "USER"}};
}

// A driver that cannot be used is the doctor's.
int num_usable_gpus() {
  try {
    return num_gpus();
  } catch (const Error&) {
    return 0;
  }
}

Diagnosis look_at_machine() {
  return {look_at("processor", [] { return judge(read_processor()); }),
          look_at("memory", [] { return judge(read_memory()); }),
          look_at("GPUs", [] { return judge(read_gpus()); }),
          look_at("libraries", [] { return judge(read_libraries(torch_versions())); })};
}

// Asked to stop, or without mpirun, the memory for one more process, or time enough: no
// promise is to blame.
SelftestResult try_promise(const Promise& promise) {
  SelftestResult result{promise.text, false, "", 0};
  result.seconds = seconds_of([&] {
    try {
      const Comparison compared = promise.try_it();
      result.is_kept = compared.is_same;
      result.text = compared.text;
    } catch (...) {
      const Error error = describe(std::current_exception());
      if (error.code() == ExitCode::kInterrupted ||
          error.code() == ExitCode::kEnvironment)
        throw;
      result.text = error.problem();
    }
  });
  return result;
}

const NewFile kReport = {"--to FILE", "the report"};

// False: it is not there.
bool write_report(const std::string& path, const std::string& text) {
  try {
    write_new_file(path, kReport, [&](const WriteBytes& write) { write(text); });
    return true;
  } catch (const Error& error) {
    warn(fmt::format("{}: the report is not written: {}", path, error.problem()));
    return false;
  }
}

// The exactness that is promised, tried on this machine with the user's settings made
// small; a report to send. kDone when all is kept, else kTraining.
int selftest(const VerbCall& call) {
  catch_stop_signals();
  if (call.announced)
    throw Error(ExitCode::kUsage, "selftest starts ranks of its own",
                call.announced->source, "zero_launch selftest, without mpirun or srun");
  const CommandLine& line = call.line;
  const Settings asked =
      read_settings(line, call.environment,
                    {.num_ranks = 0, .is_complete = false, .models = &call.models});
  if (!line.to.empty()) require_new_file(line.to, kReport);
  SelftestReport report{
      look_at_machine(), make_trial(asked, call.models, num_usable_gpus()), {}, 0};
  Lab lab(report.trial.settings, call.environment);
  const auto names = private_names(lab);
  report.seconds = seconds_of([&] {
    for (const Promise& promise : make_promises(report.trial.settings, lab)) {
      SelftestResult result = try_promise(promise);
      result.text = printable(without(result.text, names));
      const std::string told = to_line(result);
      std::fputs(told.c_str(), line.json ? stderr : stdout);
      std::fflush(stdout);
      report.results.push_back(std::move(result));
    }
  });
  const bool are_kept = report.num_broken() == 0;
  if (!are_kept) {
    lab.keep();
    warn("a promise is not kept; its runs are in " + lab.folder());
  }
  const std::string text = to_text(report);
  const bool is_written = line.to.empty() || write_report(line.to, text);
  std::fputs((line.json ? to_json_line(report) : "\n" + text).c_str(), stdout);
  return static_cast<int>(!are_kept    ? ExitCode::kTraining
                          : is_written ? ExitCode::kDone
                                       : ExitCode::kCheckpoint);
}

}  // namespace

Verb selftest_verb() {
  return {.name = "selftest",
          .summary = "the promised exactness, tried on this machine; a report to send",
          .run = selftest,
          .lines = {{"--to"}, {"--json"}},
          .own_page = selftest_help,
          .settings = kAllSettings};
}

}  // namespace zero::launcher
