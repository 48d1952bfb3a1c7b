#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "launcher/run/log_files.h"
#include "launcher/run/stream_shares.h"
#include "launcher/settings/settings.h"
#include "zero/reports.h"

namespace zero::launcher {

// One update, as it is logged.
struct StepRecord : StepReport {
  double seconds = 0;
  // Of this rank, in this time.
  bool uses_gpu = false;
  Traffic traffic;
  Shares shares;
  int64_t host_bytes_free = 0;
  int64_t host_bytes_peak = 0;  // that the process ever had
};

// The same, behind a save that was waited for so many seconds: they count as its own.
StepRecord behind_wait(StepRecord record, double waited);

struct EvalRecord {
  int64_t step = 0;
  double loss = 0;  // mean over all targets
  int64_t tokens = 0;
  double seconds = 0;
  std::optional<double> accuracy = {};  // the share of right ones
};

// How each line of metrics.jsonl begins.
constexpr char kRecordBegin[] = "{\"type\":\"";

// Whether a table has the columns that a run gives it: then it is a run's.
bool is_csv_of_ours(const std::string& path);

// Write metrics.jsonl, and if asked for metrics.csv and tensorboard/, in the run's
// folder.
//
// Every record is a line, written through at once; the files are appended to, never
// replaced. TensorBoard is not told of steps that were skipped: they have no number of
// their own. Numbers have all their digits, those that are not finite are null. Lines
// that could not be written are counted, and the next one that can follows a {"type":
// "gap",
// "lost": n}. Nothing here throws.
class Metrics {
 public:
  // `num_steps` were done before; what files tell of later ones is taken back.
  Metrics(const Settings& settings, int64_t num_steps);

  void step(const StepRecord& record);
  void eval(const EvalRecord& record);
  // A record of any other type; "type" and "wall" are added.
  void note(const std::string& type, const nlohmann::ordered_json& record);

 private:
  AppendFile jsonl_;
  // null: not asked for
  std::unique_ptr<CsvFile> csv_;
  std::unique_ptr<TensorboardFile> tensorboard_;
};

}  // namespace zero::launcher
