#include "launcher/bench/row.h"

#include <fmt/format.h>

#include <algorithm>

namespace zero::launcher {
namespace {

std::vector<std::string> columns_of(const std::vector<Row>& rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, value] : row.items()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  return columns;
}

std::string to_text(const Row& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.dump();
}

// The cells of a column, its heading first.
std::vector<std::string> cells_of(const std::vector<Row>& rows, std::string column) {
  std::vector<std::string> cells(1);
  for (const Row& row : rows)
    cells.push_back(row.contains(column) ? to_text(row[column]) : "");
  std::ranges::replace(column, '_', ' ');
  cells[0] = std::move(column);
  return cells;
}

bool has_text(const std::vector<Row>& rows, const std::string& column) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    return row.contains(column) && row[column].is_string();
  });
}

}  // namespace

void add_result(Row& row, const Seconds& measured, int64_t bytes,
                const std::string& limit_name, const Seconds& limit) {
  row["seconds"] = median(measured);
  if (bytes > 0) row["gb_per_s"] = static_cast<double>(bytes) / 1e9 / median(measured);
  row["limit"] = limit_name;
  row["limit_seconds"] = median(limit);
  row["ratio_to_limit"] = ratio_to_limit(measured, limit);
}

std::string to_table(const std::vector<Row>& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const std::string& column : columns_of(rows)) {
    const std::vector<std::string> cells = cells_of(rows, column);
    const size_t width = std::ranges::max(cells, {}, &std::string::size).size();
    const bool to_the_left = has_text(rows, column);
    for (size_t i = 0; i < lines.size(); ++i) {
      lines[i] += to_the_left ? fmt::format("{:<{}}  ", cells[i], width)
                              : fmt::format("{:>{}}  ", cells[i], width);
    }
  }
  std::string table;
  for (std::string& line : lines)
    table += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return table;
}

}  // namespace zero::launcher
