#include "launcher/settings/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

constexpr size_t kHelpColumn = 36;

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

// Of every verb.
std::string common_lines() {
  return help_line("-q, --quiet", "print results, warnings and errors alone") +
         help_line("-v, --verbose", "print more of what goes on") +
         help_line("-h, --help", "this page");
}

std::string usage(const std::string& verb) {
  const std::map<std::string, std::string> flags = {
      {"train", "--data PATH... --out DIR"},
      {"plan", "[--config FILE]"},
      {"eval", "--from DIR [--data PATH...]"},
      {"generate", "--from DIR --sample PROMPT"}};
  return fmt::format(
      "zero_launch {0} {1} [--any-setting value]...\n"
      "mpirun -n RANKS zero_launch {0} ...\n\n",
      verb, flags.at(verb));
}

using Words = std::vector<std::string>;

Words flags_of_verb(const std::string& verb) {
  Words flags = plain_flags_of(verb);
  for (const Setting& setting : setting_table()) {
    if (counts_for(verb, setting)) flags.push_back(flag_of(setting));
  }
  return flags;
}

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

std::string settings_help(const std::string& verb) {
  if (verb == "inspect") {
    return "zero_launch inspect DIR [--fqn GLOB...] [--norms] [--state] [--json]\n\n" +
           help_line("DIR",
                     "a step's folder, or a run's or seed's: its newest checkpoint; or a "
                     "folder of Hugging Face") +
           help_line("--fqn GLOB...", "tensors of these names; * stands for any text") +
           help_line("--norms",
                     "L2 norm, smallest, largest and mean value, in fp64, of what is "
                     "finite; how many are not. Reads every byte of these tensors; "
                     "without it none") +
           help_line("--state", "what the optimizer keeps, and user bytes, too") +
           help_line("--json", "print one JSON object") + common_lines();
  }
  if (verb == "diff") {
    return "zero_launch diff A B [--fqn GLOB...] [--state] [--json]\n\n" +
           help_line("A, B",
                     "each a step's folder, or a run's or seed's: its newest checkpoint; "
                     "or a folder of Hugging Face") +
           help_line("--fqn GLOB...", "tensors of these names; * stands for any text") +
           help_line("--state", "what the optimizer keeps, and user bytes, too") +
           help_line("--json", "print one JSON object") + common_lines() +
           "\nExit code 0: all are equal, in type, shape and every bit; 1: they differ; "
           "2 and more: an error.\n"
           "relative is the largest difference by A's largest magnitude, relative norm "
           "the L2 norm of the differences by A's.\n";
  }
  if (verb == "verify") {
    return "zero_launch verify DIR [--json]\n\n" +
           help_line("DIR", "a step's folder, or a run's: all its checkpoints") +
           help_line("--json", "print one JSON object") + common_lines();
  }
  if (verb == "report") {
    return "zero_launch report DIR [--to FILE]\n\n" +
           help_line("DIR", "a run's folder; the run may be at work") +
           help_line("--to FILE", "the page, for a browser [DIR/report.html]") +
           common_lines();
  }
  if (verb == "export") {
    return "zero_launch export --from DIR --to DIR [--dtype fp32|bf16|fp16]\n\n" +
           help_line("--from DIR", "a step's folder, or a run's: its newest checkpoint") +
           help_line("--to DIR",
                     "a new folder, which from_pretrained() of transformers loads") +
           help_line("--dtype fp32|bf16|fp16",
                     "of the weights; left out: that of the weights that the run started "
                     "from, else fp32") +
           help_line("--max-shard-size BYTES", "the most in a file of weights [5GiB]") +
           help_line("--replace", "a model that is in the folder") + common_lines();
  }
  if (verb == "seed") {
    std::string page =
        "zero_launch seed --out DIR [--model NAME] [--preset NAME] [--seed N]...\n\n"
        "Settings are read as train reads them; these count here.\n\n" +
        help_line("--config FILE", "read settings from this file") + common_lines() +
        "\n";
    for (const Setting& setting : setting_table()) {
      if (counts_for(verb, setting)) page += setting_line(setting, Settings());
    }
    return page;
  }
  const bool has_checkpoint = verb == "eval" || verb == "generate";
  std::string page = usage(verb) +
                     "A setting is the flag --seq-len, the environment variable "
                     "ZERO_SEQ_LEN, or the key seq_len of a file in TOML;\n"
                     "the first of these that is given counts, then " +
                     std::string(has_checkpoint ? "the checkpoint's, then " : "") +
                     "the default in brackets.\n\n";
  page += help_line("--config FILE", "read settings from this file");
  if (verb == "train")
    page += help_line("--print-config", "print all settings as such a file, and leave");
  if (verb == "plan") {
    page += help_line("--json", "print one JSON object instead of the table");
    page += help_line("--write FILE", "write the settings that fit as such a file");
  }
  if (has_checkpoint)
    page += help_line("--from DIR",
                      "a step's folder, or a run's: its newest checkpoint; or a "
                      "model's folder of Hugging Face");
  page += common_lines();
  std::string group;
  for (const Setting& setting : setting_table()) {
    if (!counts_for(verb, setting)) continue;
    if (setting.group != group) page += fmt::format("\n{}\n", group = setting.group);
    page += setting_line(setting, Settings());
  }
  return page;
}

std::string help_line(const std::string& left, const std::string& right) {
  std::string line = "  " + left;
  if (line.size() + 2 > kHelpColumn) line.append("\n").append(kHelpColumn, ' ');
  return fmt::format("{:<{}}{}\n", line, kHelpColumn, right);
}

std::string bash_completion(const Words& verbs, const ModelFamilies& models) {
  std::string flags, values;
  for (const std::string& verb : verbs)
    flags += fmt::format("    {}) flags=\"{}\" ;;\n", verb,
                         fmt::join(flags_of_verb(verb), " "));
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
