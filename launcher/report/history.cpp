#include "launcher/report/history.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <limits>

#include "launcher/run/lines.h"
#include "launcher/settings/shallow_json.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double number(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : kNan;
}

// -1: it tells none, or one that no run has.
int64_t step_of(const json& record) {
  constexpr int64_t kMost = int64_t{1} << 48;
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number_integer()) return -1;
  const auto step = found->get<int64_t>();
  return step >= 0 && step <= kMost ? step : -1;
}

StepRow row_of(const json& record) {
  StepRow row;
  row.step = step_of(record);
  row.is_skipped = record.value("skipped", json()) == true;
  row.loss = number(record, "loss");
  row.grad_norm = number(record, "grad_norm");
  row.lr = number(record, "lr");
  row.tokens = number(record, "tokens");
  row.seconds = number(record, "seconds");
  row.tokens_per_second = number(record, "tokens_per_second");
  const double bytes_free = number(record, "host_bytes_free");
  row.host_gib_free = bytes_free < 0 ? kNan : bytes_free / kGiB;  // not known there
  row.loss_scale = number(record, "loss_scale");
  return row;
}

template <class Rows>
void take_back(Rows& rows, int64_t first_step) {
  while (!rows.empty() && rows.back().step >= first_step) rows.pop_back();
}

void add_step(History& history, const StepRow& row) {
  if (!row.is_skipped) {
    take_back(history.steps, row.step);
    take_back(history.evaluations, row.step);
    take_back(history.samples, row.step);
  }
  history.steps.push_back(row);
}

template <class Rows, class Row>
void add(Rows& rows, Row row) {
  take_back(rows, row.step);
  rows.push_back(std::move(row));
}

void add_start(History& history, const json& record) {
  const double wall = number(record, "wall");
  history.starts.push_back({0, std::isnan(wall) ? 0 : wall, record});
  history.has_ended = false;
  history.stopped_by.clear();
  history.memory = nullptr;  // of the process before
}

// Whether it is a record; those of unknown types are.
bool add_record(History& history, const json& record) {
  if (!record.is_object()) return false;
  const std::string type = text_in(record, "type");
  const int64_t step = step_of(record);
  const bool has_step = type != "run" && type != "gap";
  if (type.empty() || (has_step && step < 0)) return false;
  if (type == "step") add_step(history, row_of(record));
  if (type == "eval")
    add(history.evaluations, EvaluationRow{step, number(record, "loss")});
  if (type == "sample")
    add(history.samples,
        Sample{step, text_in(record, "prompt"), text_in(record, "text")});
  if (type == "run") add_start(history, record);
  if (type == "resume" && !history.starts.empty()) history.starts.back().step = step;
  if (type == "memory") history.memory = record;
  if (type == "end") history.has_ended = true;
  if (type == "stop") history.stopped_by = text_in(record, "reason");
  if (const double lost = number(record, "lost");
      type == "gap" && lost > 0 && lost < 1e15)
    history.num_lost += static_cast<int64_t>(lost);
  if (const double wall = number(record, "wall"); !std::isnan(wall))
    history.last_wall = wall;
  return true;
}

}  // namespace

History read_history(std::istream& log) {
  History history;
  for (std::string line; std::getline(log, line) && !log.eof();) {
    const json record = parse_shallow(line);
    history.num_bad_lines += !add_record(history, record);
  }
  return history;
}

// A line has a gap where steps are missing, or one was skipped whose number is not
// finite.
Series History::series(double StepRow::*member) const {
  Series all;
  bool has_any = false;
  int64_t previous = -1;
  for (const StepRow& row : steps) {
    const auto x = static_cast<double>(row.step);
    const double y = row.*member;
    if (row.is_skipped) {
      if (!std::isfinite(y)) all.push_back({x + 0.5, kNan});
      continue;
    }
    if (previous >= 0 && row.step > previous + 1) all.push_back({x - 0.5, kNan});
    previous = row.step;
    all.push_back({x, y});
    has_any = has_any || std::isfinite(y);
  }
  return has_any ? all : Series();
}

double History::sum(double StepRow::*member) const {
  double sum = 0;
  for (const StepRow& row : steps) {
    if (std::isfinite(row.*member)) sum += row.*member;
  }
  return sum;
}

int64_t History::last_step() const { return steps.empty() ? 0 : steps.back().step; }

int64_t History::last_told() const {
  return std::max(last_step(), evaluations.empty() ? 0 : evaluations.back().step);
}

std::vector<double> History::skipped_at() const {
  std::vector<double> at;
  for (const StepRow& row : steps) {
    if (row.is_skipped) at.push_back(static_cast<double>(row.step) + 0.5);
  }
  return at;
}

}  // namespace zero::launcher
