#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/run/append_file.h"

namespace zero::launcher {

// One update, as it is logged.
struct StepRecord {
  int64_t step = 0;  // updates finished, this one included
  double loss = 0;
  double grad_norm = 0;
  double clip_coef = 1;
  double lr = 0;
  int64_t tokens = 0;  // targets of the global batch
  double seconds = 0;
  int64_t host_bytes_free = 0;
  bool skipped = false;   // not finite, so nothing was changed
  std::string first_bad;  // then: where that was seen first
};

struct EvalRecord {
  int64_t step = 0;
  double loss = 0;  // mean over all targets
  int64_t tokens = 0;
  double seconds = 0;
};

// Write metrics.jsonl, and metrics.csv if asked for, in the run's folder.
//
// Every record is a line, written through at once; the files are appended to, never
// replaced. Numbers have all their digits, those that are not finite are null. Lines that
// could not be written are counted, and the next one that can follows a {"type": "gap",
// "lost": n}. Nothing here throws.
class Metrics {
 public:
  Metrics(const std::string& folder, bool with_csv);

  void run(const nlohmann::json& config, const nlohmann::json& world);
  void step(const StepRecord& record);
  void eval(const EvalRecord& record);
  // A record of any other type; "type" and "wall" are added.
  void note(const std::string& type, nlohmann::json record);

 private:
  AppendFile jsonl_;
  std::unique_ptr<AppendFile> csv_;  // null: not asked for
};

}  // namespace zero::launcher
