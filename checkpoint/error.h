#pragma once

#include <string>
#include <string_view>

#include "base/files.h"
#include "base/names.h"

namespace zero::checkpoint {

// What is wrong with a checkpoint, where, and what to do about it.
using CheckpointError = FileError;

// Refuse a name that cannot be stored as it is (flaw_of_name() of base/names.h). Throws
// CheckpointError with the name escaped for a terminal; `file` says where it came from
// and may be empty.
inline void check_name(std::string_view name, const std::string& file = {}) {
  const std::string problem = flaw_of_name(name);
  if (!problem.empty()) throw CheckpointError(file, std::string(name), problem);
}

// Let what `make` throws of no file name this one.
template <class Make>
auto of_file(const std::string& file, const Make& make) {
  try {
    return make();
  } catch (const CheckpointError& error) {
    if (!error.file().empty()) throw;
    throw CheckpointError(file, error.fqn(), error.problem(), error.cure());
  }
}

// Let what `work` throws name the tensor, too, unless it names one.
template <class Work>
void naming(const std::string& fqn, const Work& work) {
  try {
    work();
  } catch (const CheckpointError& error) {
    if (!error.fqn().empty()) throw;
    throw CheckpointError(error.file(), fqn, error.problem(), error.cure());
  }
}

}  // namespace zero::checkpoint
