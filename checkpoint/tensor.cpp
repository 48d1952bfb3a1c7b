#include "checkpoint/tensor.h"

#include <algorithm>
#include <iterator>

namespace zero::checkpoint {
namespace {

constexpr std::string_view kKindNames[] = {
    "params", "exp_avg", "exp_avg_sq", "buffers", "user", "momentum_buffer", "sum"};

}  // namespace

const char* name_of(Kind kind) { return kKindNames[static_cast<size_t>(kind)].data(); }

std::optional<Kind> kind_named(std::string_view name) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  if (found == std::end(kKindNames)) return std::nullopt;
  return static_cast<Kind>(found - std::begin(kKindNames));
}

}  // namespace zero::checkpoint
