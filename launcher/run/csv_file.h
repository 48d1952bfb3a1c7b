#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/run/append_file.h"

namespace zero::launcher {

// Append rows of numbers to a table whose first line names its columns.
//
// A file that is there keeps its columns, whoever made it. Nothing here throws: see
// AppendFile.
class CsvFile {
 public:
  // `columns` are those of a file that is made.
  CsvFile(const std::string& path, std::vector<std::string> columns);

  // An object of numbers by column. Those that the file has no column for are left out,
  // and with them the row when none is left but the first; cells without a number are
  // empty. What is not finite is "nan".
  void write(const nlohmann::ordered_json& numbers);

 private:
  bool has_columns();

  const std::string path_;
  const std::vector<std::string> new_columns_;
  std::vector<std::string> columns_;  // of the file; empty: not known yet
  AppendFile file_;
};

}  // namespace zero::launcher
