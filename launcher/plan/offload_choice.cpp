#include "launcher/plan/offload_choice.h"

#include <fmt/format.h>

#include <vector>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

constexpr int kSteps = 64;  // of a fraction

std::vector<std::string> ways_of(const Settings& settings, const MayStay& may_stay) {
  if (settings.offload != "auto") return {settings.offload};
  if (!may_stay.weights) return {"all"};
  if (!may_stay.states) return {"optimizer", "all"};
  return {"none", "optimizer", "all"};
}

Settings with_fraction(Settings settings, int step) {
  settings.device_state_fraction = fmt::format("{}", static_cast<double>(step) / kSteps);
  return settings;
}

// `settings` fit without any.
Settings with_largest_fraction(const Settings& settings,
                               const std::function<bool(const Settings&)>& fits) {
  int fitting = 0, too_much = kSteps + 1;
  while (too_much - fitting > 1) {
    const int middle = (fitting + too_much) / 2;
    (fits(with_fraction(settings, middle)) ? fitting : too_much) = middle;
  }
  return with_fraction(settings, fitting);
}

}  // namespace

Settings choose_offload(const Settings& settings, const MayStay& may_stay,
                        const std::function<bool(const Settings&)>& fits) {
  const bool is_open = settings.device_state_fraction == "auto";
  Settings chosen = settings;
  for (const std::string& way : ways_of(settings, may_stay)) {
    chosen.offload = way;
    const bool has_fraction = way != "none" && may_stay.states;
    chosen.device_state_fraction = settings.device_state_fraction;
    if (is_open || (!has_fraction && settings.offload == "auto"))
      chosen.device_state_fraction = "0";
    const bool is_asked = may_stay.weights && (settings.offload == "auto" || is_open);
    if (!is_asked || !fits(chosen)) continue;
    return is_open && has_fraction ? with_largest_fraction(chosen, fits) : chosen;
  }
  return chosen;
}

std::string describe_offload(const std::string& offload,
                             const std::string& device_state_fraction) {
  std::string text = offload == "none"        ? "which keeps weights and states"
                     : offload == "optimizer" ? "which keeps weights"
                                              : "to which weights stream";
  const double fraction = parse_fraction(device_state_fraction).value_or(0);
  if (fraction > 0)
    text += fmt::format(", and keeps {:.0f}% of the states", 100 * fraction);
  return text + fmt::format(" (offload {})", offload);
}

}  // namespace zero::launcher
