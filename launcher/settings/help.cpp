#include "launcher/settings/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/settings/new_run.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {
namespace {

constexpr size_t kHelpColumn = 28, kVerbColumn = 12;

std::string placeholder_of(const Setting& setting) {
  return setting.is_list && !setting.is_split_at_commas ? setting.placeholder + "..."
                                                        : setting.placeholder;
}

// " [0.9,0.95]", or nothing where empty is the default.
std::string default_of(const Setting& setting, const Settings& defaults) {
  const nlohmann::json value = setting.value(defaults);
  std::string text;
  for (const auto& element : value.is_array() ? value : nlohmann::json{value}) {
    text += (text.empty() ? "" : ",") + word_of(element);
  }
  return text.empty() ? "" : " [" + text + "]";
}

// A long left side pushes the right one below it.
std::string column_line(std::string left, const std::string& right, size_t column) {
  if (left.size() + 2 > column) left.append("\n").append(column, ' ');
  return wrapped(fmt::format("{:<{}}{}", left, column, right), kPageWidth, column) + "\n";
}

// Of a flag that a verb calls otherwise than train does.
std::string own_default(const Verb& verb, const VerbLine& line) {
  const auto own = verb.own_flags.find(split(line.left, ' ')[0]);
  return own == verb.own_flags.end() ? ""
                                     : default_of(*find_setting(own->second), Settings());
}

// Of every verb.
std::string common_lines() {
  return help_line("-q, --quiet", "print results, warnings and errors alone") +
         help_line("-v, --verbose", "print more of what goes on") +
         help_line("-h, --help", "this page");
}

using Words = std::vector<std::string>;

// By flag: "fp32|bf16|fp16" is what a placeholder says of those that have a few.
std::map<std::string, Words> known_values(const ModelFamilies& models) {
  std::map<std::string, Words> values;
  for (const Setting& setting : setting_table()) {
    if (setting.placeholder.find('|') != std::string::npos)
      values[flag_of(setting)] = split(setting.placeholder, '|');
  }
  for (const ModelFamily& family : models) {
    values["--model"].push_back(family.name);
    for (const auto& preset : family.presets) values["--preset"].push_back(preset.first);
  }
  return values;
}

}  // namespace

std::string setting_line(const Setting& setting, const Settings& defaults) {
  return help_line(flag_of(setting) + " " + placeholder_of(setting),
                   setting.help + default_of(setting, defaults));
}

std::string overview() {
  std::string page =
      "zero_launch VERB [--setting value]...     one process\n"
      "zero_launch VERB --ranks N ...            N of them on this machine\n"
      "mpirun -n N zero_launch VERB ...          the same, by your own mpirun or "
      "srun\n\n";
  for (const Verb& verb : verb_table())
    if (!verb.summary.empty())
      page += column_line("  " + verb.name, verb.summary, kVerbColumn);
  return page +
         "\nzero_launch help VERB tells more about each, zero_launch --version which it "
         "is;\n"
         "eval \"$(zero_launch completion bash)\" lets bash complete verbs and flags.\n";
}

std::string page_of(const Verb& verb) {
  return wrapped(verb.own_page ? verb.own_page() : settings_help(verb));
}

std::string settings_help(const Verb& verb) {
  std::string page = verb.head + "\n\n", group;
  for (const VerbLine& line : verb.lines)
    page += help_line(line.left, line.right + own_default(verb, line));
  page += common_lines() + (verb.has_groups ? "" : "\n") + verb.notes;
  for (const Setting& setting : setting_table()) {
    if (!verb.takes(setting) || !verb.own_flag(setting.key).empty()) continue;
    if (verb.has_groups && setting.group != group)
      page += fmt::format("\n{}\n", group = setting.group);
    page += setting_line(setting, defaults_beside({}));
  }
  return page;
}

std::string help_line(const std::string& left, const std::string& right) {
  return column_line("  " + left, right, kHelpColumn);
}

std::string bash_completion(const ModelFamilies& models) {
  const Words verbs = verb_names();
  std::string flags, values;
  for (const std::string& verb : verbs)
    flags += fmt::format("    {}) flags=\"{}\" ;;\n", verb,
                         fmt::join(flags_of_verb(find_verb(verb)), " "));
  for (const auto& [flag, words] : known_values(models))
    values += fmt::format("    {}) words=\"{}\" ;;\n", flag, fmt::join(words, " "));
  return "_zero_launch() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" flags=\"\" words=\"\"\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         fmt::format("{} help completion --version", fmt::join(verbs, " ")) +
         "\" -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"${COMP_WORDS[1]}\" in\n" +
         flags +
         "  esac\n"
         "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n" +
         values +
         "  esac\n"
         "  case \"$current\" in\n"
         "    -*) words=\"$flags\" ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen ${words:+-W \"$words\"} -- \"$current\"))\n"
         "}\n"
         "complete -o bashdefault -o default -o filenames -F _zero_launch zero_launch\n";
}

}  // namespace zero::launcher
