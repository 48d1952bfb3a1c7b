#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::launcher {

// Take back what the metrics of a run tell about steps behind a checkpoint: a run that
// was cut off had done them, and the resumed one does them again.
//
// Records of steps, evaluations, samples and saves that came after this save was asked
// for go, or, where that is not told, those of later steps; all others stay. Files are
// read from the end, as far back as that save, in little memory. Returns the number of
// lines of metrics.jsonl that went. Throws nothing: a log that cannot be cut is told by a
// warning.
int64_t cut_metrics(const std::string& folder, int64_t step, int64_t num_batches);

// Before a run that begins in a folder: keep the metrics of an earlier one that has saved
// checkpoints, which are not there any more, or has ended without one, under other names,
// which are returned. Else they are of a run that crashed at its beginning, and nothing
// happens.
// Throws Error(kCheckpoint) where they cannot be kept.
std::vector<std::string> set_metrics_aside(const std::string& folder);

// Whether a run of so many steps has come to its end, with all that follows the last
// save.
bool has_end_record(const std::string& folder, int64_t step);

// How long the newest save took that the metrics of a run tell of; -1: they tell of none.
double last_save_seconds(const std::string& folder);

// The lines of a file, the last one first, in memory of one block and the longest line.
class LinesFromEnd {
 public:
  struct Line {
    int64_t begin = 0;     // where it stands in the file
    bool is_torn = false;  // the file ends before the line does
    std::string text;      // without its end
  };

  // The file stays the caller's, and keeps its `size` bytes meanwhile.
  LinesFromEnd(int descriptor, int64_t size);

  // Nothing at the file's beginning, or when it cannot be read.
  std::optional<Line> next();

  // Why the file could not be read on, as errno has it; 0: it could.
  int error() const { return error_; }

 private:
  bool read_more();

  const int descriptor_;
  int64_t begin_;       // of buffer_ in the file
  std::string buffer_;  // what has been read and not been handed out
  bool is_first_ = true;
  int error_ = 0;
};

}  // namespace zero::launcher
