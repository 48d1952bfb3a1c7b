#include "checkpoint/error.h"

#include "base/names.h"

namespace zero::checkpoint {

void check_name(std::string_view name, const std::string& file) {
  const std::string problem = flaw_of_name(name);
  if (!problem.empty()) throw CheckpointError(file, std::string(name), problem);
}

}  // namespace zero::checkpoint
