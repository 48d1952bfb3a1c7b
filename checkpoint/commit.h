#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/open_run.h"

// A save in phases. Rank 0 prepares; every rank writes its shard (writer.h); rank 0 gets
// all reports and commits. Between the phases the caller lets the ranks agree that all is
// well; if it is not, rank 0 discards. Nothing is a checkpoint before commit() returns,
// and what was one stays one until then.
namespace zero::checkpoint {

// What to do about a complete checkpoint of the same step.
enum class Existing { kRefuse, kReplace };

// Fail now rather than at the first save: make a folder with a durable file in the run's
// folder, as prepare() would, and remove it.
void probe_writable(const OpenRun& run);

// Make an empty temporary folder in the run's folder; the result is its path. Throws when
// the step is there already; a damaged one does not count.
std::string prepare(const OpenRun& run, int64_t step,
                    Existing existing = Existing::kRefuse);

// Complete the checkpoint that all ranks have written into `temporary`; the result is its
// path. Reports are in the order of the ranks.
//
// Checks that the slices tile every tensor and that every shard can be seen from here,
// writes checkpoint.h5 and, last, the manifest; makes all durable; renames. A replaced
// checkpoint trades names with the new one in one atomic step, then is removed; where the
// file system cannot do that, a kill in between is undone by tidy(). When it throws, what
// was there has its name, and `temporary` can be discarded; where a disk that fails does
// not allow that, `temporary` is empty, as it may lead to what was there.
std::string commit(const OpenRun& run, std::string& temporary,
                   const std::vector<ShardReport>& reports, const StepInfo& info,
                   Existing existing = Existing::kRefuse);

// Whether the file `latest` names this step. commit() leaves that hint for people where
// it can, and is silent where it cannot.
bool has_hint(const OpenRun& run, int64_t step);

// Make the file `best` name this step, for people and scripts. Throws CheckpointError
// where it cannot, or where a file of that name is somebody's own.
void name_best(const OpenRun& run, int64_t step);

// Remove the temporary folder of a failed save. Never throws: what cannot be removed is
// left to tidy().
void discard(const OpenRun& run, const std::string& temporary) noexcept;

}  // namespace zero::checkpoint
