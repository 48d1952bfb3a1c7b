#include "launcher/settings/plain_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "launcher/settings/verb_table.h"

namespace zero::launcher {

namespace {

const std::vector<PlainFlag> kPlainFlags = {
    {"--config", &CommandLine::config_file, "a file"},
    {"--from", &CommandLine::from, "a folder",
     "; train has --resume DIR and --init-from DIR"},
    {"--to", &CommandLine::to,
     "a new folder, or a file for generate, report and selftest"},
    {"--max-shard-size", &CommandLine::max_shard_size, "bytes such as 5GB"},
    {"--write", &CommandLine::write, "a file"},
    {"--rounds", &CommandLine::rounds, "a number"},
    {"--size", &CommandLine::size, "bytes such as 256MiB"},
    {"--fqn", &CommandLine::fqns, "names of tensors, * and ? in them"},
    {"--map", &CommandLine::maps, "GLOB=NAME, * and ? in them"},
    {"--help", &CommandLine::help},
    {"-h", &CommandLine::help},
    {"--verbose", &CommandLine::verbose},
    {"-v", &CommandLine::verbose},
    {"--quiet", &CommandLine::quiet},
    {"-q", &CommandLine::quiet},
    {"--json", &CommandLine::json},
    {"--norms", &CommandLine::norms},
    {"--state", &CommandLine::state},
    {"--replace", &CommandLine::replace},
    {"--merge", &CommandLine::merge},
    {"--adapter", &CommandLine::adapter},
    {"--print-config", &CommandLine::print_config},
    {"--dry-run", &CommandLine::dry_run}};

std::string verbs_with(const std::string& flag) {
  std::vector<std::string> names;
  for (const Verb& verb : verb_table())
    if (verb.takes(flag)) names.push_back(verb.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_given(const PlainFlag& flag, const CommandLine& line) {
  return std::visit(
      [&](auto member) { return line.*member != std::decay_t<decltype(line.*member)>(); },
      flag.member);
}

}  // namespace

const PlainFlag* find_flag(const std::string& name) {
  const auto found = std::ranges::find(kPlainFlags, name, &PlainFlag::name);
  return found == kPlainFlags.end() ? nullptr : &*found;
}

Problems check_flags(const CommandLine& line, const std::string& name) {
  const Verb& verb = find_verb(name);
  Problems problems;
  // `--fqn GLOB DIR` takes DIR for a name.
  const std::string list = !line.fqns.empty() ? "--fqn" : "--map";
  const std::string behind_a_list =
      line.fqns.empty() && line.maps.empty()
          ? ""
          : fmt::format("; {}s stand before {}, which takes all words behind it",
                        verb.operand(), list);
  if (!verb.folder.empty() && line.from.empty())
    problems.push_back(
        {fmt::format("a {} is missing; allowed: {}{}", verb.operand(), verb.folder,
                     behind_a_list),
         fmt::format("zero_launch {} {}", name, verb.takes_file ? "FILE" : "DIR")});
  if (verb.takes_two && line.folders.size() < 2)
    problems.push_back(
        {fmt::format("{} of 2 folders are given{}", line.folders.size(), behind_a_list),
         name + " A B"});
  if (line.quiet && line.verbose)
    problems.push_back({"--quiet and --verbose exclude each other", "command line"});
  for (const PlainFlag& flag : kPlainFlags)
    if (is_given(flag, line) && !verb.takes(flag.name))
      problems.push_back({fmt::format("{} belongs to {}{}", flag.name,
                                      verbs_with(flag.name), flag.advice),
                          "command line"});
  return problems;
}

std::vector<std::string> flags_of_verb(const Verb& verb) {
  std::vector<std::string> names;
  for (const PlainFlag& flag : kPlainFlags)
    if (verb.takes(flag.name)) names.push_back(flag.name);
  for (const auto& [flag, key] : verb.own_flags) names.push_back(flag);
  for (const Setting& setting : setting_table())
    if (verb.takes(setting) || verb.takes(flag_of(setting)))
      names.push_back(flag_of(setting));
  return names;
}

}  // namespace zero::launcher
