#include "launcher/settings/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "launcher/settings/verb_settings.h"

namespace zero::launcher {
namespace {

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
