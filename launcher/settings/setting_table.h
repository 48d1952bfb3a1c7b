#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "launcher/settings/settings.h"
#include "zero/errors.h"

namespace zero {
struct Options;
}
namespace zero::launcher {

// One thing that is wrong with what the user wrote, and where it was written.
struct Problem {
  std::string text;  // lr is "-1"; allowed: a number from 0
  // --lr, ZERO_LR, run.toml line 3; those of all settings that do not fit together.
  std::string origin;
};
using Problems = std::vector<Problem>;

void append(Problems& all, Problems more);

// One usage error that tells all problems, at least one. `verb` names the help page that
// cures them.
Error to_error(const Problems& problems, const std::string& verb);

// A value before it is checked. A flag and an environment variable are words; a file also
// knows types.
struct RawValue {
  enum class Type { kWords, kString, kNumber, kBoolean, kMixed };
  Type type = Type::kWords;  // of the elements, in an array
  bool is_array = false;
  std::vector<std::string> words;
  std::string origin;  // --lr, ZERO_LR, run.toml line 3
};
using RawValues = std::map<std::string, RawValue>;  // by key

// The one definition of a setting: flag --seq-len = key seq_len in a file = variable
// ZERO_SEQ_LEN.
struct Setting {
  std::string key;
  RawValue::Type type = RawValue::Type::kString;  // in a file, of a list's elements;
                                                  // kWords: a number or a string
  std::string placeholder;                        // "N", "fp32|bf16", "PATH..."
  std::string allowed;                            // "an integer from 1 to 64"
  std::string help;
  std::string group = {};
  bool is_list = false;
  bool is_split_at_commas = false;  // as a flag; in the environment every list is
  bool defines_run = false;         // a resumed run must have the same value
  // Store the value of one word, or of a list's words; false: not allowed.
  std::function<bool(Settings&, const std::vector<std::string>&)> assign = {};
  std::function<nlohmann::json(const Settings&)> value = {};
  std::string option = {};  // that has the value in the engine, as "schedule.lr"
  // Tell the engine. Empty: what the launcher uses itself, or tells with others' help.
  std::function<void(const Settings&, Options&)> tell = {};
};

// All settings in the order of the help page.
const std::vector<Setting>& setting_table();

// The constants of optimizers by key, each with the optimizers that read it.
const std::map<std::string, std::vector<std::string>>& readers_of_constants();

// How a setting is written.
using Spelling = std::string (*)(const Setting&);
std::string key_of(const Setting& setting);       // seq_len
std::string flag_of(const Setting& setting);      // --seq-len
std::string variable_of(const Setting& setting);  // ZERO_SEQ_LEN
// The setting that is written so; nullptr: there is none.
const Setting* find_setting(const std::string& text, Spelling spelling = key_of);

// Check a value and store it. Returns what is wrong with it: nothing, or one problem.
Problems assign(const Setting& setting, const RawValue& raw, Settings& settings);

// A value as people write it: a text without its quotes.
std::string word_of(const nlohmann::json& value);
// The same of each element of a list; it may have been through JSON by whomever.
RawValue raw_of(const nlohmann::json& value);

// {"seq_len": 256, ...}: goes into metrics and checkpoints, and comes back.
nlohmann::json to_json(const Settings& settings);
// Keys that are missing keep their default. Throws Error(kCheckpoint) for keys and values
// unknown here.
Settings settings_from_json(const nlohmann::json& json, const std::string& where);

// A configuration file that gives these settings, but for those `left_out`, which stand
// in comments.
std::string to_toml(const Settings& settings, const std::set<std::string>& left_out = {});

struct ChangedSetting {
  std::string key, before, after;
};
// The settings that define a run (model, data, optimizer) and are not the same in both.
std::vector<ChangedSetting> changed_settings(const Settings& before,
                                             const Settings& after);

}  // namespace zero::launcher
