#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "zero/errors.h"

namespace zero::data {

// Training data that cannot be used: what is wrong, in which file (and at which byte),
// what cures it.
class DataError : public Error {
 public:
  DataError(std::string what, std::string where, std::string cure)
      : Error(ExitCode::kData, std::move(what), std::move(where), std::move(cure)) {}
};

// Name a place in a file, for DataError's `where`.
inline std::string at_byte(const std::string& path, int64_t offset) {
  return path + ", byte " + std::to_string(offset);
}

}  // namespace zero::data
