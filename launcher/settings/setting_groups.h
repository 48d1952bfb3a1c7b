#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "launcher/settings/setting_kinds.h"

// The groups of the table of settings, and how their lines are written.
namespace zero::launcher {

using Group = std::vector<Setting>;

// Of data_settings.cpp; the others are in setting_table.cpp.
Group model_settings();
Group data_settings();

inline constexpr int64_t kMany = std::numeric_limits<int64_t>::max();
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A setting's name and member; behind them where the engine's options have its value, as
// it is (TO) or as parse(value) gives it (AS).
#define KEY(name, ...) \
  { #name, &Settings::name __VA_OPT__(, ) __VA_ARGS__ }
#define TO(place) \
  "" #place,      \
      [](Options& o, const auto& v) { o.place = static_cast<decltype(o.place)>(v); }
// Of a choice whose first word is auto: the first of the options' values stands for it,
// too, until the launcher has chosen.
#define TO_BEHIND_AUTO(place)                                              \
  "" #place, [](Options& o, size_t word) {                                 \
    o.place = static_cast<decltype(o.place)>(word == 0 ? word : word - 1); \
  }
#define AS(place, parse)                              \
  "" #place, [](Options& o, const auto& v) {          \
    o.place = parse(v).value_or(decltype(o.place)()); \
  }

}  // namespace zero::launcher
