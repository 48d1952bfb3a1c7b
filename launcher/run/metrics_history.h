#pragma once
#include <cstdint>
#include <string>

namespace zero::launcher {

// Take back what the metrics of a run tell about steps behind a checkpoint: a run that
// was cut off had done them, and the resumed one does them again.
//
// Records of steps, evaluations and saves that came after the one of this save go, or,
// without a record of the save, those of later steps; all others stay. Files are read
// from the end, as far back as that save, in little memory. Returns the number of lines
// of metrics.jsonl that went. Throws nothing: a log that cannot be cut is told by a
// warning.
int64_t cut_metrics(const std::string& folder, int64_t step, int64_t num_batches);

// Whether a run of so many steps has come to its end, with all that follows the last
// save.
bool has_end_record(const std::string& folder, int64_t step);

}  // namespace zero::launcher
