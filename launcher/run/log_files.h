#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"

// The files in which a run tells its numbers: lines, a table, TensorBoard's.
namespace zero::launcher {

// Append records to a file that the run can do without.
//
// Nothing here throws or stops: when a record cannot be written whole, the file keeps its
// last complete one, one warning goes to stderr, and later ones are tried again. A link
// is followed to a file of ours alone. Where the file is moved, replaced or removed
// meanwhile, records go on at its path.
class AppendFile {
 public:
  // `begin` is how a file of ours begins; `end` is written behind each record; the
  // warning tells what happens `then`.
  AppendFile(std::string path, std::string begin, std::string end = "\n",
             std::string then =
                 "training goes on, lines are lost until it can be "
                 "written again");

  // Written through to the system; false when it was lost.
  bool append(const std::string& record);

  bool is_empty();  // nothing is in it, or it cannot be opened
  // Records, since the last one that was written.
  int64_t num_lost() const { return num_lost_; }

 private:
  bool follow_path();
  bool try_append(const std::string& record);

  const std::string path_, begin_, end_, then_;
  std::optional<Descriptor> file_;  // once it could be opened
  int64_t num_lost_ = 0;
  bool has_warned_ = false;
};

// What the first line of a table names; nothing where there is none, or no file, as of a
// pipe, whose writer one would wait for.
std::vector<std::string> columns_of_csv(const std::string& path);

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
  std::vector<std::string> columns();

  const std::string path_;
  const std::vector<std::string> new_columns_;
  AppendFile file_;
};

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
  void append(const std::string& records);

  const int64_t first_step_;
  AppendFile file_;
};

// CRC-32C, the polynomial of Castagnoli, as TFRecord wants it.
uint32_t crc32c(std::string_view bytes);

}  // namespace zero::launcher
