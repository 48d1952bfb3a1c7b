#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "zero/options.h"

namespace zero::launcher {

// Settings that say something of what a name's pattern matches: "GLOB: key=value key
// ...", with spaces or commas between. Nothing for text of another form.

// "*.bias: lr=0.1x weight_decay=0 freeze": one of the three at least.
std::optional<ParamGroup> parse_group(const std::string& text);

// "1000:model.layers.*": what is frozen until so many steps are done.
struct Thaw {
  int64_t step = 0;
  std::string pattern;
};
std::optional<Thaw> parse_thaw(const std::string& text);

// "h.0: dtype=fp32 reshard=false offload=none": one of the three at least.
std::optional<UnitOption> parse_unit(const std::string& text);

}  // namespace zero::launcher
