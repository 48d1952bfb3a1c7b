#pragma once

#include <cstdint>
#include <memory>
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

// Map a file read-only and notice when it changes.
//
// Size and modification time are recorded at construction. Pages are read when they are
// touched, so a file may be larger than memory. const members may be called from several
// threads.
class MappedFile {
 public:
  // With keep_mapped the mapping lives as long as this object, otherwise only as long as
  // a view: a process may hold a limited number of mappings (65,530 by default on Linux).
  // Throws DataError when the file cannot be opened.
  MappedFile(std::string path, bool keep_mapped);

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return stamp_.size_bytes; }

  // The file's bytes from `offset` on, up to its end. Throws DataError when the file
  // changed since construction: bytes that are cut off under a mapping would end the
  // process with SIGBUS.
  std::shared_ptr<const unsigned char> view(int64_t offset = 0) const;

 private:
  struct Stamp {
    int64_t size_bytes = 0;
    int64_t modified_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  Stamp read_stamp() const;
  void check_unchanged() const;
  std::shared_ptr<const unsigned char> map() const;

  // Constant after construction.
  std::string path_;
  Stamp stamp_;
  std::shared_ptr<const unsigned char> kept_;  // null unless keep_mapped
};

}  // namespace zero::data
