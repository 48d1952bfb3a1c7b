#pragma once
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// What the log of a run tells, put together for people to look at.
namespace zero::launcher {

// y is NaN where a line has a gap.
struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};
using Series = std::vector<Point>;  // by x

// A step as it was told; what was not, or is not finite, is NaN.
struct StepRow {
  int64_t step = 0;         // of the last update, where it was skipped
  bool is_skipped = false;  // no update was made
  double loss = 0, grad_norm = 0, lr = 0, tokens = 0, seconds = 0, tokens_per_second = 0,
         host_gib_free = 0, loss_scale = 0;
};

struct EvaluationRow {
  int64_t step = 0;
  double loss = 0;
};

struct Sample {
  int64_t step = 0;
  std::string prompt, text;  // one behind the other they are the whole
};

// A process, or some of them, that worked at the run.
struct Start {
  int64_t step = 0;       // steps that were done before
  double wall = 0;        // seconds since 1970
  nlohmann::json record;  // {"world": {...}, "config": {...}, ...}
};

// The records of a run in the order of steps. Steps that are told again were done again:
// what was told before of them and of later ones is left out.
struct History {
  std::vector<StepRow> steps;
  std::vector<EvaluationRow> evaluations;
  std::vector<Sample> samples;
  std::vector<Start> starts;
  nlohmann::json memory;      // the last record of memory; null: there is none
  std::string stopped_by;     // why it stopped; empty: it did not, or not by itself
  bool has_ended = false;     // all steps were done
  double last_wall = 0;       // when the last record was written; 0: nobody knows
  int64_t num_bad_lines = 0;  // that are no records
  int64_t num_lost = 0;       // records that could not be written

  // Of the updates; what no row has told is an empty series.
  Series series(double StepRow::*member) const;
  double sum(double StepRow::*member) const;  // of what is finite
  int64_t last_step() const;                  // 0: there is none
  int64_t last_told() const;                  // the same with evaluations
  std::vector<double> skipped_at() const;     // between the steps around each
};

struct NamedHistory {
  std::string name;
  History history;
};

// A last line without an end is being written, and passed over.
History read_history(std::istream& log);

}  // namespace zero::launcher
