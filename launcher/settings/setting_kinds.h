#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// Settings of each kind of value, still without their group.

// An integer in [low, high].
Setting integer(std::string key, int64_t Settings::*member, int64_t low, int64_t high,
                std::string help);
// A number in [0, high); any finite one from 0 on when `high` is infinite.
Setting number(std::string key, double Settings::*member, double high, std::string help);
// Two numbers in [0, 1).
Setting two_fractions(std::string key, std::array<double, 2> Settings::*member,
                      std::string help);
Setting boolean(std::string key, bool Settings::*member, std::string help);
// A time as Slurm takes it, kept as seconds.
Setting duration(std::string key, int64_t Settings::*member, std::string help);
// A time with its unit, kept as seconds; 0 is allowed.
Setting span(std::string key, int64_t Settings::*member, std::string help);
// An amount of memory, kept as bytes.
Setting size(std::string key, int64_t Settings::*member, std::string help);
// A number of steps or a time.
Setting interval(std::string key, SaveInterval Settings::*member, std::string help);
// steps=FIRST:LAST, or an empty text.
Setting step_range(std::string key, StepRange Settings::*member, std::string help);
Setting text(std::string key, std::string Settings::*member, std::string placeholder,
             std::string help);
Setting choice(std::string key, std::string Settings::*member,
               const std::vector<std::string>& choices, std::string help);
// "unit", "none" or "every:K".
Setting recomputation(std::string key, std::string Settings::*member, std::string help);
Setting fraction_or_auto(std::string key, std::string Settings::*member,
                         std::string help);
Setting list(std::string key, std::vector<std::string> Settings::*member,
             std::string placeholder, std::string help);
// A list of some of the choices, with commas between them.
Setting choices(std::string key, std::vector<std::string> Settings::*member,
                const std::vector<std::string>& choices, std::string help);

}  // namespace zero::launcher
