#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/run_lock.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

class Heartbeat;

// The folder of a run, as all ranks share it: checkpoints, metrics, the lock that keeps a
// second job out, and the file STOP by which people end the run.
//
// Construction is collective; rank 0 alone writes. It creates the folder, takes the lock,
// removes what a killed job of this run has left half made, checks that a checkpoint
// could be written, and has every rank read back a random word,
// so that a folder which each node has for itself is noticed before the first step.
// Throws CheckpointError or Error(kCheckpoint), on rank 0 or on the rank that cannot see
// the folder.
class RunFolder {
 public:
  RunFolder(const std::string& path, const std::string& job_id,
            checkpoint::TakeOver take_over, Ranks& ranks);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

  // --- rank 0
  // Throws CheckpointError when another job has taken the run over, or the folder was
  // moved.
  void check_ours();
  const checkpoint::OpenRun& run() const;
  // Checkpoints of later steps than this one, which were passed over as damaged, get
  // other names; returns those.
  std::vector<std::string> set_aside_behind(int64_t step) const;
  bool has_stop_file() const;
  void remove_stop_file() const;

 private:
  std::string path_;
  std::unique_ptr<Heartbeat> lock_;  // rank 0 only
};

// The file that stops the run in `folder`.
std::string stop_file(const std::string& folder);

// Every rank must read in `folder` what rank 0 writes there; collective. `seen_as` is
// where this rank finds the folder.
void check_shared(const std::string& folder, const std::string& seen_as, Ranks& ranks);

}  // namespace zero::launcher
