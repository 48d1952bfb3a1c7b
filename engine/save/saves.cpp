#include "engine/save/saves.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/processes.h"
#include "checkpoint/buffer.h"
#include "checkpoint/format.h"
#include "engine/save/save_job.h"
#include "engine/watch/activity.h"
#include "engine/weights/shard_views.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero {

// A save that the thread makes, and what became of it.
class SaveInProgress final : public Save {
 public:
  SaveInProgress(std::unique_ptr<SaveJob> job, bool step_throws)
      : step_throws(step_throws),
        doing_("saving step " + std::to_string(job->step())),
        job_(std::move(job)),
        bytes_left_(job_->num_bytes()) {}

  bool is_done() const override { return is_known_; }
  std::string wait() override {
    block();
    return tell();
  }
  std::exception_ptr error() const override { return is_known_ ? error_ : nullptr; }
  double seconds() const override {
    return std::chrono::duration<double>(ended_ - began_).count();
  }
  double cpu_seconds() const override { return cpu_seconds_; }

  // --- of the training thread
  const bool step_throws;
  bool has_ended() const { return end_.query(); }
  void block() const {
    if (has_ended()) return;
    Activity::Stretch stretch(doing_);
    stretch.expect(bytes_left_);
    end_.synchronize();
  }
  // Once it has ended, and all ranks know.
  void note_end() { is_known_ = true; }
  bool has_untold_error() const { return error_ && !is_told_; }
  std::string tell() {
    is_known_ = is_told_ = true;
    if (error_) std::rethrow_exception(error_);
    return path_;
  }

  // --- of the thread that saves
  void begin(Ranks& ranks) {
    cpu_seconds_ = -cpu_seconds_of_thread();
    job_->begin(ranks);
  }
  void write_unit(int unit, const Point* updated) {
    bytes_left_ -= job_->write_unit(unit, updated);
  }
  void finish(Ranks& ranks) {
    try {
      path_ = job_->finish(ranks);
    } catch (...) {
      error_ = std::current_exception();
    }
    job_.reset();
    cpu_seconds_ += cpu_seconds_of_thread();
    ended_ = Clock::now();
  }
  Event& end() { return end_; }

 private:
  using Clock = std::chrono::steady_clock;

  const std::string doing_;
  std::unique_ptr<SaveJob> job_;
  std::atomic<int64_t> bytes_left_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point ended_ = began_;
  double cpu_seconds_ = 0;
  std::string path_;
  std::exception_ptr error_;
  Event end_;  // from here on what is above is the training thread's
  bool is_known_ = false, is_told_ = false;
};

// What a GPU keeps, through a little pinned memory, in a stream that waits for nothing of
// the training's.
class WayOut final : public FarMemory {
 public:
  WayOut(Device& device, Stream& stream)
      : stream_(stream), pinned_(device, room_.data(), kRoomBytes) {}

  void read(void* here, const void* there, int64_t bytes) override {
    for (int64_t at = 0; at < bytes; at += kRoomBytes) {
      const int64_t part = std::min(kRoomBytes, bytes - at);
      stream_.copy(room_.data(), static_cast<const char*>(there) + at, part);
      stream_.synchronize();
      bytes_ += part;
      std::memcpy(static_cast<char*>(here) + at, room_.data(), part);
    }
  }
  void write(void*, const void*, int64_t) override {
    throw std::logic_error("a save writes nothing to a GPU");
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kRoomBytes = checkpoint::kChunkBytes;
  Stream& stream_;
  checkpoint::Buffer room_{kRoomBytes};
  const Pinned pinned_;
  std::atomic<int64_t> bytes_{0};
};

Saves::Saves(const Workplace& at, const std::vector<ParamDescription>& params,
             UpdateQueue& updates, Ranks& control)
    : at_(at),
      params_(params),
      updates_(updates),
      control_(control),
      read_(at.plan.units.size()) {}

Saves::~Saves() { join(); }

std::vector<ShardView> Saves::views() {
  if (at_.memory.has_state_on_gpu() && !gpu_) {
    gpu_stream_ = at_.device.make_stream("saves");
    gpu_ = std::make_unique<WayOut>(at_.device, *gpu_stream_);
  }
  return shard_views(params_, at_.plan, at_.shards, at_.options, at_.rank, gpu_.get());
}

std::vector<int> Saves::units_of_params() const {
  std::vector<int> units;
  for (const ParamPlace& place : at_.plan.places)
    units.push_back(at_.plan.parts[place.part].unit);
  return units;
}

void Saves::finish_last() {
  const auto last = std::exchange(last_, nullptr);
  if (!last) return;
  last->block();
  last->note_end();
  if (last->has_untold_error()) last->tell();
}

std::shared_ptr<Save> Saves::start(std::unique_ptr<SaveJob> job, bool step_throws) {
  if (!thread_) {
    ranks_ = control_.duplicate();
    thread_ = at_.device.make_worker("saves");
  }
  const auto save = std::make_shared<SaveInProgress>(std::move(job), step_throws);
  thread_->enqueue([=, this] { save->begin(*ranks_); });
  for (int u = 0; u < std::ssize(read_); ++u) {
    thread_->enqueue([=, updated = updates_.updated(u).latest()] {
      save->write_unit(u, updated.get());
    });
    thread_->record(read_[u]);
    updates_.hold_back(u, read_[u]);
  }
  thread_->enqueue([=, this] { save->finish(*ranks_); });
  thread_->record(save->end());
  last_ = save;
  return save;
}

int64_t Saves::bytes_from_gpu() const { return gpu_ ? gpu_->bytes() : 0; }

void Saves::join() noexcept {
  if (last_) last_->block();
}

void Saves::end_step() {
  if (!last_ || last_->is_done()) return;
  int64_t has_ended = last_->has_ended();
  control_.all_reduce({&has_ended, 1}, ReduceOp::kMin, "save");
  if (!has_ended) return;
  last_->note_end();
  if (last_->step_throws && last_->has_untold_error()) last_->tell();
}

}  // namespace zero
