#include "launcher/run/csv_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// Nothing where that is no file, as a pipe, whose writer one would wait for.
std::vector<std::string> columns_in(const std::string& path) {
  std::error_code error;
  std::string line;
  if (std::filesystem::is_regular_file(path, error)) {
    std::ifstream file(path);
    std::getline(file, line);
  }
  if (line.ends_with('\r')) line.pop_back();
  return line.empty() ? std::vector<std::string>() : split(line, ',');
}

std::string cell_of(const nlohmann::ordered_json& number) {
  const bool is_finite = !number.is_number_float() || std::isfinite(number.get<double>());
  return is_finite ? number.dump() : "nan";
}

}  // namespace

CsvFile::CsvFile(const std::string& path, std::vector<std::string> columns)
    : path_(path), new_columns_(std::move(columns)), file_(path) {}

// Whether there is a first line, which is written where there is none.
bool CsvFile::has_columns() {
  if (file_.is_empty()) {
    columns_ = new_columns_;
    return file_.append(fmt::format("{}", fmt::join(columns_, ",")));
  }
  if (columns_.empty()) columns_ = columns_in(path_);
  return !columns_.empty();
}

void CsvFile::write(const nlohmann::ordered_json& numbers) {
  if (!has_columns()) return;
  std::vector<std::string> row;
  int num_filled = 0;
  for (const std::string& column : columns_) {
    const auto found = numbers.find(column);
    row.push_back(found == numbers.end() ? "" : cell_of(*found));
    num_filled += found != numbers.end();
  }
  if (num_filled > 1) file_.append(fmt::format("{}", fmt::join(row, ",")));
}

}  // namespace zero::launcher
