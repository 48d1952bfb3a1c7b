#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// Settings of each kind of value, still without their group.

// An integer in [low, high].
Setting integer(const std::string& key, int64_t Settings::*member, int64_t low,
                int64_t high, const std::string& help);
// A number in [0, high); any finite one from 0 on when `high` is infinite.
Setting number(const std::string& key, double Settings::*member, double high,
               const std::string& help);
// Two numbers in [0, 1).
Setting two_fractions(const std::string& key, std::array<double, 2> Settings::*member,
                      const std::string& help);
Setting boolean(const std::string& key, bool Settings::*member, const std::string& help);
// A time as Slurm takes it, kept as seconds.
Setting duration(const std::string& key, int64_t Settings::*member,
                 const std::string& help);
// A time with its unit, kept as seconds; 0 is allowed.
Setting span(const std::string& key, int64_t Settings::*member, const std::string& help);
// An amount of memory, kept as bytes.
Setting size(const std::string& key, int64_t Settings::*member, const std::string& help);
// A number of steps or a time.
Setting interval(const std::string& key, SaveInterval Settings::*member,
                 const std::string& help);
// steps=FIRST:LAST, or an empty text.
Setting step_range(const std::string& key, StepRange Settings::*member,
                   const std::string& help);
Setting text(const std::string& key, std::string Settings::*member,
             const std::string& placeholder, const std::string& help);
Setting choice(const std::string& key, std::string Settings::*member,
               const std::vector<std::string>& choices, const std::string& help);
Setting list(const std::string& key, std::vector<std::string> Settings::*member,
             const std::string& placeholder, const std::string& help);
// A list of some of the choices, with commas between them.
Setting choices(const std::string& key, std::vector<std::string> Settings::*member,
                const std::vector<std::string>& choices, const std::string& help);

}  // namespace zero::launcher
