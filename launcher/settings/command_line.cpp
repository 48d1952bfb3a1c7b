#include "launcher/settings/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "launcher/settings/foreign_names.h"
#include "launcher/settings/name_advice.h"
#include "launcher/settings/plain_flags.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {
namespace {

// A word such as -1 or -x is a value: it may be a number or a prompt.
bool is_flag(const std::string& word) {
  return word.starts_with("--") || word == "-h" || word == "-v" || word == "-q";
}

// --seq_len is --seq-len.
std::string with_dashes(std::string flag) {
  std::ranges::replace(flag, '_', '-');
  return flag;
}

class Reader {
 public:
  Reader(const std::vector<std::string>& words, const std::string& verb)
      : words_(words), verb_(find_verb(verb)) {}

  CommandLine run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (is_flag(word)) {
        read_flag(word);
      } else if (line_.folders.size() < verb_.num_folders() && !word.empty() &&
                 !has_one_dash(word)) {
        line_.folders.push_back(word);
      } else {
        problem(stray(word), "command line");
        if (has_one_dash(word)) skip_values();
      }
    }
    if (!verb_.folder.empty()) take_folder_as_from();
    return std::move(line_);
  }

 private:
  std::string advice_on(const std::string& flag) const {
    const bool is_negation = flag.starts_with("--no-");
    const Setting* negated =
        is_negation ? setting_of_flag("--" + flag.substr(5)) : nullptr;
    if (negated && foreign_name_advice(flag.substr(2)).empty())
      return fmt::format("; {} is no switch: {} {}", negated->key, flag_of(*negated),
                         negated->placeholder);
    return advice_for_flag(flag.substr(2), verb_);
  }

  std::string stray(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    if (has_one_dash(word)) return "unknown flag " + name + advice_on("-" + name);
    if (word.starts_with("\u2013") || word.starts_with("\u2014"))
      return fmt::format("\"{}\" begins with a long dash; a flag begins with --", word);
    if (list_before_)
      return fmt::format(
          "\"{}\" stands alone; {} is one list with commas, without blanks", word,
          flag_of(*list_before_));
    if (name != word && find_setting(name))
      return fmt::format("\"{}\" is no flag; here: {} {}", word,
                         flag_of(*find_setting(name)), word.substr(name.size() + 1));
    if (word == "help") return "\"help\" stands before the verb: help " + verb_.name;
    if (verb_.name == "generate")
      return fmt::format("\"{}\" stands alone; a prompt stands behind --prompt", word);
    if (verb_.num_folders() > 0)
      return fmt::format("\"{}\" is one {} too many; {}", word, verb_.operand(),
                         verb_.takes_file           ? "one alone is imported"
                         : verb_.num_more > 0       ? "more would hide one another"
                         : verb_.num_folders() == 2 ? "diff compares two"
                         : verb_.name == "inspect"  ? "diff A B compares two"
                                                    : verb_.name + " takes one");
    if (word.ends_with(".toml") || word.ends_with(".py") || word.ends_with(".yaml"))
      return fmt::format(
          "\"{}\" stands alone; a file of settings, in TOML, stands behind --config",
          word);
    std::error_code error;
    const bool may_be_data =
        verb_.takes(*find_setting("data")) && std::filesystem::exists(word, error);
    return fmt::format("\"{}\" stands alone; {}", word,
                       may_be_data ? "files to learn from stand behind --data"
                                   : "a value stands behind its flag");
  }

  // A word such as -lr; -1 is a value.
  static bool has_one_dash(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && std::isalpha(word[1]) != 0;
  }

  void take_folder_as_from() {
    if (line_.folders.empty()) return;
    if (!line_.from.empty())
      problem(
          fmt::format("from is given twice, as {} and {}", line_.from, line_.folders[0]),
          "--from");
    line_.from = line_.folders[0];
    line_.folders.erase(line_.folders.begin());
  }

  // --flag or --flag=value
  void read_flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string flag = with_dashes(word.substr(0, equals));
    std::optional<std::string> value;
    if (equals != word.npos) value = word.substr(equals + 1);
    list_before_ = nullptr;

    const PlainFlag* known = find_flag(flag);
    // Of one verb it may be a switch, and a setting elsewhere.
    if (known && !verb_.takes(flag) && setting_of_flag(flag)) known = nullptr;
    if (known) {
      std::visit([&](auto member) { read_plain(*known, line_.*member, value); },
                 known->member);
    } else if (const Setting* setting = setting_of_flag(flag)) {
      read_setting(*setting, flag, value);
    } else if (const Setting* negated = setting_of_negation(flag)) {
      read_negation(*negated, flag, value);
    } else {
      problem(fmt::format("unknown flag {}{}", word.substr(0, equals), advice_on(flag)),
              "command line");
      skip_values();
    }
  }

  // The boolean that --no-KEY switches off.
  const Setting* setting_of_negation(const std::string& flag) const {
    if (!flag.starts_with("--no-")) return nullptr;
    const Setting* setting = setting_of_flag("--" + flag.substr(5));
    return setting && setting->type == RawValue::Type::kBoolean ? setting : nullptr;
  }

  const Setting* setting_of_flag(const std::string& flag) const {
    const auto own = verb_.own_flags.find(flag);
    if (own != verb_.own_flags.end()) return find_setting(own->second);
    return find_setting(flag, flag_of);
  }

  void read_plain(const PlainFlag& flag, bool& result,
                  const std::optional<std::string>& value) {
    result = true;
    if (value) problem(flag.name + " takes no value", flag.name);
  }

  void read_plain(const PlainFlag& flag, std::string& result,
                  const std::optional<std::string>& value) {
    const std::vector<std::string> words =
        value ? std::vector{*value} : following_words(1);
    if (words.empty() || words[0].empty()) {
      problem(fmt::format("{} has no value; allowed: {}", flag.name, flag.allowed),
              flag.name);
    } else if (!result.empty()) {
      problem(fmt::format("{} is given twice, as {} and {}", flag.name, result, words[0]),
              flag.name);
    } else {
      result = words[0];
    }
  }

  void read_plain(const PlainFlag& flag, std::vector<std::string>& all,
                  const std::optional<std::string>& value) {
    const std::vector<std::string> words =
        value ? std::vector{*value} : following_words();
    if (words.empty() || std::ranges::count(words, "") > 0)
      problem(fmt::format("{} has no value; allowed: {}", flag.name, flag.allowed),
              flag.name);
    all.insert(all.end(), words.begin(), words.end());
  }

  void read_setting(const Setting& setting, const std::string& flag,
                    const std::optional<std::string>& value) {
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
    if (setting.is_split_at_commas) list_before_ = &setting;
    if (setting.is_split_at_commas && words.size() == 1) words = split(words[0], ',');
    add(setting, flag, words);
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
    const auto [found, is_new] = line_.flags.try_emplace(setting.key);
    if (is_new) {
      found->second.origin = flag;
    } else if (setting.is_split_at_commas) {
      problem(setting.key + " is given twice; allowed: once", flag);
    }
    auto& all = found->second.words;
    all.insert(all.end(), words.begin(), words.end());
  }

  // Those of an unknown flag; what looks like a flag is told, too.
  void skip_values() {
    while (next_ < words_.size() && !is_flag(words_[next_]) &&
           !has_one_dash(words_[next_]))
      ++next_;
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
  const Verb& verb_;
  size_t next_ = 0;
  const Setting* list_before_ = nullptr;  // that the last flag was, where commas are
  CommandLine line_;
};

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& words,
                              const std::string& verb) {
  return Reader(words, verb).run();
}

void require_no_settings(const CommandLine& line, const std::string& verb) {
  Problems problems = line.problems;
  if (!line.flags.empty() || !line.config_file.empty())
    problems.push_back({verb + " takes no settings", "command line"});
  if (!problems.empty()) throw to_error(problems, verb);
}

}  // namespace zero::launcher
