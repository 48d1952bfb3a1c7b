#include "launcher/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/io.h"
#include "engine/watch/activity.h"
#include "launcher/commands/verbs.h"
#include "launcher/doctor/finding.h"
#include "launcher/process/kernel_caches.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/progress.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/config.h"
#include "launcher/settings/foreign_names.h"
#include "launcher/settings/help.h"
#include "launcher/settings/names.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/verb_table.h"

namespace zero {
namespace {

using namespace launcher;

Error unknown_verb(const std::string& word) {
  if (word.starts_with("--") && nearest(word, {"--version", "--help"}).empty())
    return {ExitCode::kUsage, fmt::format("a verb stands before {}", word),
            "command line", "zero_launch train ...; zero_launch --help lists the verbs"};
  std::vector<std::string> names = verb_names();
  for (const char* other : {"help", "completion", "--version"}) names.emplace_back(other);
  const std::string foreign = foreign_verb_advice(word), near = nearest(word, names);
  const std::string advice = !foreign.empty()          ? "; " + foreign
                             : word.ends_with(".toml") ? "; here: train --config " + word
                             : !near.empty()           ? "; nearest: " + near
                                                       : "";
  return {ExitCode::kUsage, fmt::format("\"{}\" is no verb{}", word, advice),
          "command line", "zero_launch --help lists the verbs"};
}

// `adam` in `bench adam --json`; no other verb has kinds.
std::string kind_behind(const std::vector<std::string>& words) {
  const bool has_kind =
      words[0] == "bench" && words.size() > 1 && !words[1].starts_with('-');
  return has_kind ? words[1] : "";
}

int print_page(const std::string& page, int rank) {
  if (rank == 0) print_text(page, "the page");
  return static_cast<int>(ExitCode::kDone);
}

const Verb& known_verb(const std::string& name) {
  const Verb& verb = find_verb(name);
  return verb.run ? verb : throw unknown_verb(name);
}

// What is told without a verb: `help [VERB]`, `completion bash`, `--version`.
std::optional<std::string> page_for(const std::vector<std::string>& words,
                                    const ModelFamilies& models) {
  const std::string& first = words[0];
  const std::string second = words.size() > 1 ? words[1] : "";
  if (first == "--version") return "zero_launch " + program_version() + "\n";
  if (first == "--help" || first == "-h") return overview();
  if (first == "help") {
    if (second.empty()) return overview();
    return page_of(known_verb(second));
  }
  if (first != "completion") return std::nullopt;
  if (second != "bash")
    throw Error(ExitCode::kUsage,
                second.empty() ? "completion of which shell?"
                               : fmt::format("no completion for \"{}\"", second),
                "command line", "eval \"$(zero_launch completion bash)\"");
  return bash_completion(models);
}

int run_verb(const std::vector<std::string>& words, const ModelFamilies& models,
             const std::vector<std::string>& environment,
             const std::optional<AnnouncedWorld>& announced) {
  const Verb& verb = known_verb(words[0]);
  const std::string kind = kind_behind(words);
  CommandLine line =
      read_command_line({words.begin() + (kind.empty() ? 1 : 2), words.end()}, words[0]);
  line.words = words;
  line.kind = kind;
  append(line.problems, check_flags(line, words[0]));
  const VerbCall call{line, models, environment, announced};
  if (line.help) return print_page(page_of(verb), call.rank());
  set_loudness(line.quiet     ? Loudness::kQuiet
               : line.verbose ? Loudness::kVerbose
                              : Loudness::kUsual);
  checkpoint::set_work_listener(Activity::sign_here);
  std::jthread teller;
  if (call.rank() == 0) {
    // A bench forks, which leaves locks of other threads as they are.
    if (!line.quiet && words[0] != "bench") teller = tell_progress();
    for (const std::string& name : unread_variables(environment))
      warn(printable(name) + " is set, and no setting of that name is known: not read");
  }
  const int code = verb.run(call);
  // A run has its files; of others this is what they are for.
  const bool is_run = words[0] == "train" && !line.print_config;
  if (!is_run) require_output("the result");
  return code;
}

}  // namespace

const std::vector<Verb>& launcher::verb_table() {
  static const std::vector<Verb> verbs = {
      train_verb(),  tokenize_verb(), seed_verb(),    plan_verb(),    presets_verb(),
      eval_verb(),   generate_verb(), predict_verb(), inspect_verb(), verify_verb(),
      diff_verb(),   report_verb(),   export_verb(),  import_verb(),  bench_verb(),
      doctor_verb(), selftest_verb(), hello_verb()};
  return verbs;
}

int launch(int argc, char** argv, const ModelFamilies& models) {
  guard_streams();
  bound_kernel_caches();
  std::signal(SIGCHLD, SIG_DFL);  // where a caller ignores it, nobody learns how ranks
                                  // end
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc),
      environment = process_environment();
  std::optional<AnnouncedWorld> announced;
  std::optional<int> rank = 0;  // until it is known; nothing: no ranks were announced
  try {
    // An environment that makes no sense is refused before all else.
    announced = announced_world(environment);
    rank = announced ? std::optional(announced->rank) : std::nullopt;
    if (words.empty()) {
      if (rank.value_or(0) == 0) std::fputs(overview().c_str(), stderr);
      return static_cast<int>(ExitCode::kUsage);
    }
    if (const auto page = page_for(words, models))
      return print_page(*page, rank.value_or(0));
    return run_verb(words, models, environment, announced);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank);
  }
}

}  // namespace zero
