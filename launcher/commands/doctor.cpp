// The verb that looks at the machine, and the one that its ranks say hello with.
#include <optional>

#include "launcher/commands/verbs.h"
#include "launcher/doctor/finding.h"
#include "launcher/doctor/hosts.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// The two settings that the verb takes.
struct LookWish {
  std::string out = ".";  // the folder whose disk is looked at
  std::string hosts;      // a hostfile, whose hosts alone are looked at; empty: this one
};

LookWish read_asked(const CommandLine& line) {
  Problems problems = line.problems;
  LookWish asked;
  for (const auto& [key, value] : line.flags) {
    const bool is_one = value.words.size() == 1 && !value.words[0].empty();
    if (key == "out" && is_one)
      asked.out = value.words[0];
    else if (key == "hosts" && is_one)
      asked.hosts = value.words[0];
    else
      problems.push_back(
          {"doctor takes --out DIR, --hosts FILE and no other setting", value.origin});
  }
  if (!line.config_file.empty())
    problems.push_back({"doctor reads no file of settings", "--config"});
  if (!problems.empty()) throw to_error(problems, "doctor");
  return asked;
}

Findings look_at_memory() {
  Findings all = judge(read_memory());
  const Findings limits = judge(read_limits());
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

// GPUs come before libraries, of which some are loaded for them.
Diagnosis diagnose(const std::string& out, const MpiFacts& mpi) {
  Diagnosis all = {look_at("processor", [] { return judge(read_processor()); }),
                   look_at("memory", look_at_memory),
                   look_at("disk", [&] { return judge(read_disk(out)); }),
                   look_at("MPI", [&] { return judge(mpi); })};
  FindingGroup gpus = look_at("GPUs", [] { return judge(read_gpus()); });
  all.push_back(
      look_at("libraries", [] { return judge(read_libraries(torch_versions())); }));
  all.push_back(std::move(gpus));
  return all;
}

// What this machine offers and measures, each finding with its cure. kDone when nothing
// is bad, else kEnvironment. Under an mpirun or srun of the user's its ranks are tried.
int doctor(const VerbCall& call) {
  const LookWish asked = read_asked(call.line);
  MpiFacts mpi;
  Diagnosis diagnosis;
  const double seconds = seconds_of([&] {
    if (!asked.hosts.empty()) {
      diagnosis = {{"hosts", call.rank() == 0
                                 ? look_at_hosts(asked.hosts, call.environment)
                                 : Findings()}};
      return;
    }
    if (call.rank() == 0) mpi = read_mpi(call.environment, call.announced);
    if (call.announced)
      mpi.hello = join_hello(call.environment, *call.announced);
    else if (!mpi.mpirun.empty())
      mpi.hello = say_hello(call.environment);
    if (call.rank() == 0) diagnosis = diagnose(asked.out, mpi);
  });
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const std::string text =
      call.line.json ? to_line(diagnosis, seconds) : to_page(diagnosis, seconds);
  print_text(text, "the result");
  return static_cast<int>(count(diagnosis, Mark::kBad) == 0 ? ExitCode::kDone
                                                            : ExitCode::kEnvironment);
}

// What ranks that the doctor starts do: find each other. No verb for people.
int hello(const VerbCall& call) {
  require_no_settings(call.line, "hello");
  check_start(call.environment, call.announced, 0);
  World world(call.announced);
  return run_or_end(world, [&] {
    const std::string text = hello_of(world);
    if (world.rank() == 0) print_line(text);
    return ExitCode::kDone;
  });
}

}  // namespace

Verb doctor_verb() {
  return {.name = "doctor",
          .summary = "what this machine offers, each finding with its cure",
          .run = doctor,
          .lines = {{"--out"}, {"--json"}, {"--hosts"}},
          .own_page = doctor_help};
}

Verb hello_verb() { return {.name = "hello", .run = hello}; }

}  // namespace zero::launcher
