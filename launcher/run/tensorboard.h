#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/run/csv_file.h"

namespace zero::launcher {

// Write numbers as TensorBoard reads them: a file of events, each a record of TFRecord
// that holds an Event of TensorFlow's event.proto.
//
// Each start of a run makes a file of its own in the folder; what earlier ones tell of
// steps from `first_step` on is taken back by it. Nothing here throws: see AppendFile.
class TensorboardFile {
 public:
  TensorboardFile(const std::string& folder, int64_t first_step);

  using Scalars = std::vector<std::pair<std::string, double>>;  // tags and values
  void write(int64_t step, const Scalars& scalars);

 private:
  AppendFile file_;
};

// CRC-32C, the polynomial of Castagnoli, as TFRecord wants it.
uint32_t crc32c(std::string_view bytes);

}  // namespace zero::launcher
