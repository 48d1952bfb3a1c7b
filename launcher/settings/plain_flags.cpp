#include "launcher/settings/plain_flags.h"

#include <fmt/format.h>

#include <type_traits>

namespace zero::launcher {

const std::vector<PlainFlag<std::string>> kFlagsWithValue = {
    {"--config", &CommandLine::config_file, {}, "a file"},
    {"--from",
     &CommandLine::from,
     {"eval", "generate", "inspect", "verify", "report", "export"},
     "a folder",
     "; train has --resume DIR and --init-from DIR"},
    {"--to",
     &CommandLine::to,
     {"export", "report", "selftest"},
     "a new folder, or a file for report and selftest"},
    {"--max-shard-size", &CommandLine::max_shard_size, {"export"}, "bytes such as 5GB"},
    {"--write", &CommandLine::write, {"plan"}, "a file"},
    {"--rounds", &CommandLine::rounds, {"bench"}, "a number"},
    {"--size", &CommandLine::size, {"bench"}, "bytes such as 256MiB"}};

const std::vector<PlainFlag<std::vector<std::string>>> kListFlags = {
    {"--fqn",
     &CommandLine::fqns,
     {"inspect", "diff"},
     "names of tensors, * and ? in them"}};

const std::vector<PlainFlag<bool>> kSwitches = {
    {"--help", &CommandLine::help},
    {"-h", &CommandLine::help},
    {"--verbose", &CommandLine::verbose},
    {"-v", &CommandLine::verbose},
    {"--quiet", &CommandLine::quiet},
    {"-q", &CommandLine::quiet},
    {"--json",
     &CommandLine::json,
     {"plan", "inspect", "verify", "diff", "bench", "doctor", "selftest"}},
    {"--norms", &CommandLine::norms, {"inspect"}},
    {"--state", &CommandLine::state, {"inspect", "diff"}},
    {"--replace", &CommandLine::replace, {"export"}},
    {"--print-config", &CommandLine::print_config, {"train"}}};

namespace {

template <class Flags>
void refuse_others_flags(const Flags& flags, const CommandLine& line,
                         const std::string& verb, Problems& problems) {
  for (const auto& flag : flags) {
    const auto& value = line.*flag.member;
    const bool is_given = value != std::decay_t<decltype(value)>{};
    if (!is_given || flag.is_of(verb)) continue;
    problems.push_back({fmt::format("{} belongs to {}{}", flag.name,
                                    fmt::join(flag.verbs, ", "), flag.advice),
                        "command line"});
  }
}

std::string folders_for(const std::string& verb) {
  if (verb == "report") return "the folder of a run, its --out";
  const bool reads_safetensors =
      verb == "eval" || verb == "generate" || verb == "inspect";
  return reads_safetensors
             ? "a run's folder, one of its steps, or a model's folder of Hugging Face"
             : "a run's folder or one of its steps";
}

}  // namespace

size_t num_folders_of(const std::string& verb) {
  if (verb == "diff") return 2;
  return !verb.empty() && find_flag(kFlagsWithValue, "--from")->is_of(verb) ? 1 : 0;
}

Problems check_flags(const CommandLine& line, const std::string& verb) {
  Problems problems;
  // `--fqn GLOB DIR` takes DIR for a name.
  const std::string behind_a_list =
      line.fqns.empty() ? ""
                        : "; folders stand before --fqn, which takes all words behind it";
  const auto& from = *find_flag(kFlagsWithValue, "--from");
  if (line.from.empty() && from.is_of(verb))
    problems.push_back(
        {"a folder is missing; allowed: " + folders_for(verb) + behind_a_list,
         fmt::format("zero_launch {} DIR", verb)});
  const size_t num_folders = num_folders_of(verb);
  if (num_folders > 1 && line.folders.size() < num_folders)
    problems.push_back({fmt::format("{} of {} folders are given{}", line.folders.size(),
                                    num_folders, behind_a_list),
                        verb + " A B"});
  if (line.quiet && line.verbose)
    problems.push_back({"--quiet and --verbose exclude each other", "command line"});
  refuse_others_flags(kFlagsWithValue, line, verb, problems);
  refuse_others_flags(kListFlags, line, verb, problems);
  refuse_others_flags(kSwitches, line, verb, problems);
  return problems;
}

std::vector<std::string> plain_flags_of(const std::string& verb) {
  std::vector<std::string> names;
  const auto add = [&](const auto& flags) {
    for (const auto& flag : flags) {
      if (flag.is_of(verb)) names.push_back(flag.name);
    }
  };
  add(kFlagsWithValue);
  add(kListFlags);
  add(kSwitches);
  return names;
}

}  // namespace zero::launcher
