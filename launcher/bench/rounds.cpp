#include "launcher/bench/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>

#include "base/seconds.h"
#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// What `calculate` makes of the seconds of each round.
template <class Calculate, class... Others>
Seconds by_round(Calculate calculate, const Seconds& first, const Others&... others) {
  Seconds results;
  for (size_t i = 0; i < first.size(); ++i)
    results.push_back(calculate(first[i], others[i]...));
  return results;
}

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

}  // namespace

std::vector<Seconds> alternate(const std::vector<Contestant>& contestants,
                               int64_t num_rounds) {
  std::vector<Seconds> all(contestants.size());
  for (int64_t round = -1; round < num_rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      if (stop_signal() != 0)
        throw Error(ExitCode::kInterrupted, "stopped: nothing was lost");
      const double seconds = contestants[i]();
      if (round >= 0) all[i].push_back(seconds);
    }
  }
  return all;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

double median(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double ratio_to_limit(const Seconds& measured, const Seconds& limit) {
  return median(by_round(std::divides(), limit, measured));
}

double hidden_part(const Seconds& in_step, const Seconds& queued, const Seconds& none) {
  return median(
      by_round([](double in_step, double queued,
                  double none) { return (in_step - queued) / (in_step - none); },
               in_step, queued, none));
}

Seconds operator+(const Seconds& left, const Seconds& right) {
  return by_round(std::plus(), left, right);
}

Seconds operator-(const Seconds& left, const Seconds& right) {
  return by_round(std::minus(), left, right);
}

Seconds beyond(const Seconds& whole, const Seconds& part) {
  return by_round([](double whole, double part) { return std::max(0.0, whole - part); },
                  whole, part);
}

Row with_result(Row row, const Seconds& measured, int64_t bytes,
                const std::string& limit_name, const Seconds& limit) {
  row["seconds"] = median(measured);
  if (bytes > 0) row["gb_per_s"] = static_cast<double>(bytes) / 1e9 / median(measured);
  row["limit"] = limit_name;
  row["limit_seconds"] = median(limit);
  row["ratio_to_limit"] = ratio_to_limit(measured, limit);
  return row;
}

std::string to_table(const std::vector<Row>& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const std::string& column : columns_of(rows)) {
    const std::vector<std::string> cells = cells_of(rows, column);
    const size_t width = std::ranges::max(cells, {}, &std::string::size).size();
    const bool to_the_left = std::ranges::any_of(
        rows, [&](const Row& row) { return row.value(column, Row()).is_string(); });
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
