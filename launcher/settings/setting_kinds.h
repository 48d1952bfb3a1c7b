#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

using Words = std::vector<std::string>;

// A member of Settings and its name; the option of the engine that has its value, and how
// it gets there. Without the last the launcher tells it; without both it is its own.
template <class T>
struct Named {
  std::string key;
  T Settings::*member;
  std::string option = {};
  std::function<void(Options&, const T&)> tell = {};
};

// How a setting is written: its type, placeholder, what is allowed, and its help.
struct Description {
  RawValue::Type type;
  std::string placeholder, allowed, help;
};

// Settings of each kind of value, still without their group.

// An integer in [low, high].
Setting integer(Named<int64_t> named, int64_t low, int64_t high, std::string help);
// A number in [0, high); any finite one from 0 on when `high` is infinite.
Setting number(Named<double> named, double high, std::string help);
// From 0 to 1, both included.
Setting share(Named<double> named, std::string help);
// Two numbers in [0, 1).
Setting two_fractions(Named<std::array<double, 2>> named, std::string help);
Setting boolean(Named<bool> named, std::string help);
// A time as Slurm takes it, kept as seconds.
Setting duration(Named<int64_t> named, std::string help);
// A time with its unit, kept as seconds; 0 is allowed.
Setting span(Named<int64_t> named, std::string help);
// An amount of memory, kept as bytes.
Setting size(Named<int64_t> named, std::string help);
// A number of steps or a time.
Setting interval(Named<SaveInterval> named, std::string help);
// steps=FIRST:LAST, or an empty text.
Setting step_range(Named<StepRange> named, std::string help);
Setting text(Named<std::string> named, std::string placeholder, std::string help);
// A word that is kept as it is.
Setting word(Named<std::string> named, Description about,
             std::function<bool(const std::string&)> is_allowed);
Setting choice(Named<std::string> named, const Words& choices, std::string help);
// One whose words are an enumerator's, in their order; the engine is told its number.
Setting choice(Named<std::string> named, const Words& choices, std::string help,
               std::string option, std::function<void(Options&, size_t)> tell);
// Of gradients.
Setting gradient_type(Named<std::string> named, std::string help);
Setting list(Named<Words> named, std::string placeholder, std::string help);
// The same with commas between the words, as a flag too.
Setting comma_list(Named<Words> named, std::string placeholder, std::string help);
// "GLOB: key=value key": what of the form `is_rule` takes; `form` shows it.
Setting rules(Named<Words> named, std::string form, std::string help,
              std::function<bool(const std::string&)> is_rule);
// A list of some of the choices, with commas between them.
Setting choices(Named<Words> named, const Words& choices, std::string help);

}  // namespace zero::launcher
