#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/step_report.h"
#include "engine/traffic.h"
#include "launcher/run/shares.h"

namespace zero::launcher {

// One update, as it is logged.
struct StepRecord : StepReport {
  double seconds = 0;
  // Of this rank, in this time.
  bool uses_gpu = false;
  Traffic traffic;
  Shares shares;
  int64_t host_bytes_free = 0;
};

struct EvalRecord {
  int64_t step = 0;
  double loss = 0;  // mean over all targets
  int64_t tokens = 0;
  double seconds = 0;
};

// Append lines to a file that the run can do without.
//
// Nothing here throws or stops: when a line cannot be written whole, the file keeps its
// last complete line, one warning goes to stderr, and later lines are tried again.
class AppendFile {
 public:
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Written through to the system, with a line end added; false when it was lost.
  bool append(const std::string& line);

  bool is_empty() const;  // nothing was ever written to it
  // Lines, since the last one that was written.
  int64_t num_lost() const { return num_lost_; }

 private:
  bool try_append(const std::string& text);

  std::string path_;
  int descriptor_ = -1;
  int64_t num_lost_ = 0;
  bool has_warned_ = false;
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

  void step(const StepRecord& record);
  void eval(const EvalRecord& record);
  // A record of any other type; "type" and "wall" are added.
  void note(const std::string& type, const nlohmann::ordered_json& record);

 private:
  AppendFile jsonl_;
  std::unique_ptr<AppendFile> csv_;  // null: not asked for
};

}  // namespace zero::launcher
