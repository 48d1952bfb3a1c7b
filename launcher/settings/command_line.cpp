#include "launcher/settings/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "launcher/settings/names.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// A word such as -1 or -x is a value: it may be a number or a prompt.
bool is_flag(const std::string& word) { return word.starts_with("--") || word == "-h"; }

const Setting* setting_of_flag(const std::string& flag) {
  const auto& table = setting_table();
  const auto found = std::ranges::find(table, flag, flag_of);
  return found == table.end() ? nullptr : &*found;
}

// The boolean that --no-KEY switches off.
const Setting* setting_of_negation(const std::string& flag) {
  if (!flag.starts_with("--no-")) return nullptr;
  const Setting* setting = setting_of_flag("--" + flag.substr(5));
  return setting && setting->type == RawValue::Type::kBoolean ? setting : nullptr;
}

class Reader {
 public:
  explicit Reader(const std::vector<std::string>& words) : words_(words) {}

  CommandLine run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (is_flag(word)) {
        read_flag(word);
      } else {
        problem(fmt::format("\"{}\" stands alone; a value stands behind its flag", word),
                "command line");
      }
    }
    return std::move(line_);
  }

 private:
  // --flag or --flag=value
  void read_flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != word.npos) value = word.substr(equals + 1);

    if (flag == "--help" || flag == "-h") {
      line_.help = true;
    } else if (flag == "--print-config") {
      line_.print_config = true;
    } else if (flag == "--json") {
      line_.json = true;
    } else if (flag == "--config") {
      read_once(flag, "a file", value, line_.config_file);
    } else if (flag == "--write") {
      read_once(flag, "a file", value, line_.write);
    } else if (flag == "--from") {
      read_once(flag, "a folder", value, line_.from);
    } else if (flag == "--rounds") {
      read_once(flag, "a number", value, line_.rounds);
    } else if (flag == "--size") {
      read_once(flag, "bytes such as 256MiB", value, line_.size);
    } else if (const Setting* setting = setting_of_flag(flag)) {
      read_setting(*setting, value);
    } else if (const Setting* negated = setting_of_negation(flag)) {
      read_negation(*negated, flag, value);
    } else {
      problem("unknown flag " + flag + advice_for(flag.substr(2), flag_of),
              "command line");
      following_words();
    }
  }

  // A flag that is no setting.
  void read_once(const std::string& flag, const std::string& allowed,
                 const std::optional<std::string>& value, std::string& result) {
    const std::vector<std::string> words =
        value ? std::vector{*value} : following_words(1);
    if (words.empty() || words[0].empty()) {
      problem(fmt::format("{} has no value; allowed: {}", flag, allowed), flag);
    } else if (!result.empty()) {
      problem(fmt::format("{} is given twice, as {} and {}", flag, result, words[0]),
              flag);
    } else {
      result = words[0];
    }
  }

  void read_setting(const Setting& setting, const std::optional<std::string>& value) {
    std::vector<std::string> words;
    if (value) {
      words = {*value};
    } else if (setting.type == RawValue::Type::kBoolean) {
      const bool is_followed = next_ < words_.size() && parse_boolean(words_[next_]);
      words = {is_followed ? words_[next_++] : "true"};
    } else {
      words = following_words(
          setting.is_list && !setting.is_split_at_commas ? words_.size() : 1);
    }
    if (setting.is_split_at_commas && words.size() == 1) words = split(words[0], ',');
    add(setting, flag_of(setting), words);
  }

  void read_negation(const Setting& setting, const std::string& flag,
                     const std::optional<std::string>& value) {
    if (value) {
      problem(
          fmt::format("{} takes no value; write {}={}", flag, flag_of(setting), *value),
          flag);
    } else {
      add(setting, flag, {"false"});
    }
  }

  void add(const Setting& setting, const std::string& flag,
           const std::vector<std::string>& words) {
    auto found = std::ranges::find(line_.flags, setting.key, &FlagValue::key);
    if (found == line_.flags.end()) {
      found = line_.flags.insert(found, {setting.key, RawValue()});
      found->value.origin = flag;
    } else if (setting.is_split_at_commas) {
      problem(setting.key + " is given twice; allowed: once", flag);
    }
    auto& all = found->value.words;
    all.insert(all.end(), words.begin(), words.end());
  }

  // The words up to the next flag, at most so many.
  std::vector<std::string> following_words(size_t most = -1) {
    std::vector<std::string> words;
    while (words.size() < most && next_ < words_.size() && !is_flag(words_[next_])) {
      words.push_back(words_[next_++]);
    }
    return words;
  }

  void problem(std::string text, std::string origin) {
    line_.problems.push_back({std::move(text), std::move(origin)});
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  CommandLine line_;
};

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& words) {
  return Reader(words).run();
}

Problems check_flags(const CommandLine& line, const std::string& verb) {
  struct Flag {
    bool is_given;
    std::string name;
    std::vector<std::string> verbs;
    std::string advice;
  };
  const Flag flags[] = {
      {!line.from.empty(),
       "--from",
       {"eval", "generate", "verify"},
       "; train has --resume DIR"},
      {!line.write.empty(), "--write", {"plan"}, ""},
      {!line.rounds.empty(), "--rounds", {"bench"}, ""},
      {!line.size.empty(), "--size", {"bench"}, ""},
      {line.json, "--json", {"plan", "verify", "bench"}, ""},
      {line.print_config, "--print-config", {"train"}, ""},
  };
  Problems problems;
  const auto& takers_of_from = flags[0].verbs;
  if (line.from.empty() &&
      std::ranges::find(takers_of_from, verb) != takers_of_from.end())
    problems.push_back(
        {"from is missing; allowed: a run's folder or one of its steps", "--from DIR"});
  for (const auto& [is_given, name, verbs, advice] : flags) {
    if (!is_given || std::ranges::find(verbs, verb) != verbs.end()) continue;
    problems.push_back(
        {fmt::format("{} belongs to {}{}", name, fmt::join(verbs, ", "), advice),
         "command line"});
  }
  return problems;
}

std::string advice_for(const std::string& name, std::string (*spelling)(const Setting&)) {
  if (const std::string advice = foreign_name_advice(name); !advice.empty())
    return "; " + advice;
  std::vector<std::string> keys;
  for (const Setting& setting : setting_table()) keys.push_back(setting.key);
  const std::string key = nearest(name, keys);
  return key.empty() ? "" : "; nearest: " + spelling(*find_setting(key));
}

}  // namespace zero::launcher
