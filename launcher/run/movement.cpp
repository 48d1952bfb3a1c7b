#include "launcher/run/movement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace zero::launcher {
namespace {

constexpr size_t kMostNames = 4;

std::vector<std::string> stuck(const std::vector<ParamMovement>& movements,
                               bool had_gradient) {
  std::vector<std::string> fqns;
  for (const ParamMovement& each : movements)
    if (!each.moved && each.had_gradient == had_gradient) fqns.push_back(each.fqn);
  return fqns;
}

std::string told(const char* why, const std::vector<std::string>& fqns) {
  if (fqns.empty()) return "";
  const size_t shown = std::min(fqns.size(), kMostNames);
  const std::string more =
      shown < fqns.size() ? fmt::format(" and {} more", fqns.size() - shown) : "";
  return fmt::format("; {}: {}{}", why, fmt::join(std::span(fqns).first(shown), ", "),
                     more);
}

}  // namespace

std::string movement_line(const std::vector<ParamMovement>& movements) {
  return fmt::format("masters fp32, {} of {} trainable parameters moved{}{}",
                     std::ranges::count_if(movements, &ParamMovement::moved),
                     movements.size(), told("no gradient but 0", stuck(movements, false)),
                     told("steps of 0, or too small for fp32", stuck(movements, true)));
}

nlohmann::ordered_json movement_record(const std::vector<ParamMovement>& movements) {
  return {{"trained", movements.size()},
          {"moved", std::ranges::count_if(movements, &ParamMovement::moved)},
          {"without_gradient", stuck(movements, false)},
          {"stuck", stuck(movements, true)}};
}

}  // namespace zero::launcher
