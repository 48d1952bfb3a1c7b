#include "engine/plan/fqn.h"

#include "checkpoint/error.h"
#include "checkpoint/names.h"
#include "engine/errors.h"

namespace zero {
namespace {

std::string fault_of(const std::string& fqn) {
  try {
    checkpoint::check_name(fqn);
  } catch (const checkpoint::CheckpointError& error) {
    return error.problem();
  }
  const bool has_gap =
      fqn.find("..") != std::string::npos || fqn.front() == '.' || fqn.back() == '.';
  return has_gap ? "the name has an empty component" : "";
}

}  // namespace

void check_fqn(const std::string& fqn) {
  const std::string fault = fault_of(fqn);
  if (fault.empty()) return;
  throw Error(ExitCode::kUsage, "a parameter cannot be saved: " + fault,
              checkpoint::printable(fqn.substr(0, 64)) + (fqn.size() > 64 ? "..." : ""),
              "register it under a name that can be a key of a checkpoint");
}

}  // namespace zero
