#include "launcher/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/commands/bench.h"
#include "launcher/commands/eval.h"
#include "launcher/commands/generate.h"
#include "launcher/commands/plan.h"
#include "launcher/commands/train.h"
#include "launcher/commands/verify.h"
#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/run/console.h"
#include "launcher/run/report.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/help.h"
#include "launcher/settings/names.h"

namespace zero {
namespace {

using namespace launcher;

struct Verb {
  const char *name, *summary;
  int (*run)(const CommandLine& line, const ModelFamilies& models);
  std::string (*help)(const std::string& verb) = settings_help;
};

constexpr std::array kVerbs = {
    Verb{"train", "train a language model, its state sharded over all ranks", train},
    Verb{"plan", "will it fit? memory by owner, what would fit, the largest model", plan},
    Verb{"eval", "the loss of a checkpoint's model on data (--from DIR)", eval},
    Verb{"generate", "a prompt, continued by a checkpoint's model (--from DIR)",
         generate_text},
    Verb{"verify", "every byte of a checkpoint, or of all of a run's (--from DIR)",
         verify},
    Verb{"bench", "what this machine does, each beside its limit (adam, step, ...)",
         bench, bench_help},
};

std::string overview() {
  std::string text =
      "zero_launch VERB [--setting value]...        one process\n"
      "zero_launch VERB --ranks N ...               N of them on this machine\n"
      "mpirun -n N zero_launch VERB ...             the same, by your own mpirun or "
      "srun\n\n";
  for (const Verb& verb : kVerbs)
    text += fmt::format("  {:<10}{}\n", verb.name, verb.summary);
  return text + "\nzero_launch VERB --help tells more about each.\n";
}

Failure unknown_verb(const std::string& word) {
  const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Verb& verb : kVerbs) all.emplace_back(verb.name);
    return all;
  }();
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

int rank_before_mpi() {
  const auto announced = announced_world(process_environment());
  return announced ? announced->rank : 0;
}

int print_by_first_rank(const std::string& page, std::FILE* stream) {
  if (rank_before_mpi() == 0) std::fputs(page.c_str(), stream);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int launch(int argc, char** argv, const ModelFamilies& models) {
  guard_streams();
  try {
    rank_before_mpi();  // an environment that makes no sense is refused before all else
  } catch (...) {
    return report_alone(describe(std::current_exception()), 0);
  }
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_by_first_rank(overview(), words.empty() ? stderr : stdout);
    return static_cast<int>(words.empty() ? ExitCode::kUsage : ExitCode::kDone);
  }
  for (const Verb& verb : kVerbs) {
    if (words[0] != verb.name) continue;
    const std::string kind = kind_behind(words);
    CommandLine line =
        read_command_line({words.begin() + (kind.empty() ? 1 : 2), words.end()});
    line.words = words;
    line.kind = kind;
    if (line.help) return print_by_first_rank(verb.help(words[0]), stdout);
    append(line.problems, check_flags(line, words[0]));
    return verb.run(line, models);
  }
  return report_alone(unknown_verb(words[0]), rank_before_mpi());
}

}  // namespace zero
