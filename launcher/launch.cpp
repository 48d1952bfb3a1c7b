#include "launcher/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/io.h"
#include "engine/watch/activity.h"
#include "launcher/bench/benches.h"
#include "launcher/commands/verbs.h"
#include "launcher/doctor/finding.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/progress.h"
#include "launcher/selftest/outcome.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/config.h"
#include "launcher/settings/help.h"
#include "launcher/settings/names.h"
#include "launcher/settings/plain_flags.h"

namespace zero {
namespace {

using namespace launcher;

struct Verb {
  const char *name, *summary;
  int (*run)(const VerbCall& call);
  std::string (*help)(const std::string& verb) = settings_help;
};

constexpr std::array kVerbs = {
    Verb{"train", "train a language model, its state sharded over all ranks", train},
    Verb{"seed", "the first values of a model, for any number of ranks (--out DIR)",
         seed},
    Verb{"plan", "will it fit? memory by owner, what would fit, the largest model", plan},
    Verb{"eval", "the loss of a model on data (--from DIR)", eval},
    Verb{"generate", "a prompt, continued by a model (--from DIR)", generate_text},
    Verb{"inspect", "what a checkpoint or a folder of Hugging Face holds (inspect DIR)",
         inspect},
    Verb{"verify", "every byte of a checkpoint, or of all of a run's (verify DIR)",
         verify},
    Verb{"diff", "two of them, tensor by tensor (diff A B)", diff},
    Verb{"report", "a page of curves, samples and settings of a run (report DIR)",
         report},
    Verb{"export",
         "a checkpoint's model as a folder for Hugging Face (--from DIR --to DIR)",
         export_folder},
    Verb{"bench", "what this machine does, each beside its limit (adam, step, ...)",
         bench, bench_help},
    Verb{"doctor", "what this machine offers, each finding with its cure", doctor,
         doctor_help},
    Verb{"selftest", "the promised exactness, tried on this machine; a report to send",
         selftest, selftest_help},
    Verb{"hello", "", hello},  // the doctor's
};

std::string overview() {
  std::string text =
      "zero_launch VERB [--setting value]...        one process\n"
      "zero_launch VERB --ranks N ...               N of them on this machine\n"
      "mpirun -n N zero_launch VERB ...             the same, by your own mpirun or "
      "srun\n\n";
  for (const Verb& verb : kVerbs)
    if (*verb.summary) text += fmt::format("  {:<10}{}\n", verb.name, verb.summary);
  return text +
         "\nzero_launch help VERB tells more about each; zero_launch --version, which "
         "this "
         "is;\neval \"$(zero_launch completion bash)\" lets bash complete verbs and "
         "flags.\n";
}

std::vector<std::string> names_of_verbs() {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs)
    if (*verb.summary) names.emplace_back(verb.name);
  return names;
}

Error unknown_verb(const std::string& word) {
  if (word.starts_with("--") && nearest(word, {"--version", "--help"}).empty())
    return {ExitCode::kUsage, fmt::format("a verb stands before {}", word),
            "command line", "zero_launch train ...; zero_launch --help lists the verbs"};
  std::vector<std::string> names = names_of_verbs();
  for (const char* other : {"help", "completion", "--version"}) names.emplace_back(other);
  const std::string near = nearest(word, names);
  return {
      ExitCode::kUsage,
      fmt::format("\"{}\" is no verb{}", word, near.empty() ? "" : "; nearest: " + near),
      "command line", "zero_launch --help lists the verbs"};
}

// `adam` in `bench adam --json`; no other verb has kinds.
std::string kind_behind(const std::vector<std::string>& words) {
  const bool has_kind =
      words[0] == "bench" && words.size() > 1 && !words[1].starts_with('-');
  return has_kind ? words[1] : "";
}

int print_once(const std::string& page, int rank, std::FILE* stream = stdout) {
  if (rank == 0) std::fputs(page.c_str(), stream);
  return static_cast<int>(ExitCode::kDone);
}

const Verb& verb_named(const std::string& word) {
  const auto verb = std::ranges::find(kVerbs, word, &Verb::name);
  if (verb == kVerbs.end()) throw unknown_verb(word);
  return *verb;
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
    return verb_named(second).help(second);
  }
  if (first != "completion") return std::nullopt;
  if (second != "bash")
    throw Error(ExitCode::kUsage,
                second.empty() ? "completion of which shell?"
                               : fmt::format("no completion for \"{}\"", second),
                "command line", "eval \"$(zero_launch completion bash)\"");
  return bash_completion(names_of_verbs(), models);
}

int run_verb(const std::vector<std::string>& words, const ModelFamilies& models,
             const std::vector<std::string>& environment,
             const std::optional<AnnouncedWorld>& announced) {
  const Verb& verb = verb_named(words[0]);
  const std::string kind = kind_behind(words);
  CommandLine line =
      read_command_line({words.begin() + (kind.empty() ? 1 : 2), words.end()}, words[0]);
  line.words = words;
  line.kind = kind;
  append(line.problems, check_flags(line, words[0]));
  const VerbCall call{line, models, environment, announced};
  if (line.help) return print_once(verb.help(words[0]), call.rank());
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
  return verb.run(call);
}

}  // namespace

int launch(int argc, char** argv, const ModelFamilies& models) {
  guard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // where a caller ignores it, nobody learns how ranks
                                  // end
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc),
      environment = process_environment();
  std::optional<AnnouncedWorld> announced;
  const auto rank = [&] { return announced ? announced->rank : 0; };
  try {
    // An environment that makes no sense is refused before all else.
    announced = announced_world(environment);
    if (words.empty()) {
      print_once(overview(), rank(), stderr);
      return static_cast<int>(ExitCode::kUsage);
    }
    if (const auto page = page_for(words, models)) return print_once(*page, rank());
    return run_verb(words, models, environment, announced);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank());
  }
}

}  // namespace zero
