#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/open_run.h"
#include "checkpoint/slices.h"
#include "checkpoint/writer.h"
#include "zero/save_load.h"

namespace at {
class Tensor;
}
namespace zero {

class Point;
class Ranks;
struct ShardView;

// Whose folder rank 0 holds open (other ranks: null), or whose folder rank 0 opens, and
// makes if it is missing.
struct SavePlace {
  const checkpoint::OpenRun* run = nullptr;
  std::string path = "";
};

// One rank's part of a save: what was taken by value when it was asked for, where the
// rest lies, and its way to the disk.
//
// begin(), write_unit() of every unit and finish() are for one thread, whose `ranks` are.
// The first and the last are collective: after an error, of whichever rank, finish()
// throws that of the lowest on every rank, and nothing is left.
class SaveJob {
 public:
  // Collective on engine.control(). Throws Error(kDiverged) on every rank where they ask
  // for different steps, Error(kUsage) where values are awaited.
  SaveJob(Engine& engine, SavePlace place, SavedState state, const SaveOptions& options);
  ~SaveJob();

  void begin(Ranks& ranks) noexcept;
  // Write what lies still from `updated` on, if it is not null, until this returns; how
  // many bytes that are.
  int64_t write_unit(int unit, const Point* updated) noexcept;
  std::string finish(Ranks& ranks);  // path of the checkpoint

  int64_t step() const { return state_.step; }
  int64_t num_bytes() const { return bytes_of(slices_); }  // of this rank

 private:
  void add_slices(const std::vector<ShardView>& views, const std::vector<int>& units);
  void add_buffers(Engine& engine);
  void add_user_bytes();
  void open_run();
  void keep_error(const std::function<void()>& body) noexcept;
  std::string commit(Ranks& ranks);

  const std::string name_;
  const bool is_first_;
  SavePlace place_;
  std::unique_ptr<checkpoint::OpenRun> own_run_;
  const checkpoint::Existing existing_;
  const std::function<void(const std::string&)> after_;
  SavedState state_;
  std::vector<at::Tensor> buffers_;  // as they are stored
  checkpoint::StepInfo info_;
  std::vector<checkpoint::Slice> slices_;
  std::vector<int> units_;  // of each slice; what was taken by value counts as the
                            // first's
  std::string temporary_;
  std::unique_ptr<checkpoint::ShardWriter> writer_;
  std::exception_ptr error_;
};

}  // namespace zero
