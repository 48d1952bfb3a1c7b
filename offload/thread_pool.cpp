#include "offload/thread_pool.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>
#include <tbb/version.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "offload/affinity.h"
#include "offload/float_environment.h"
#include "offload/happens_before.h"
#include "offload/topology.h"

namespace zero {
namespace {

// Let TBB start at least `num_threads` threads.
//
// Its own limit is the number of CPUs it saw at its first use, perhaps before the process
// was bound. Of several limits TBB obeys the lowest, so the process holds one that grows.
void raise_thread_limit(int num_threads) {
  static std::mutex mutex;
  static std::unique_ptr<tbb::global_control> limit;
  const auto kind = tbb::global_control::max_allowed_parallelism;

  std::lock_guard lock(mutex);
  const auto wanted = static_cast<size_t>(num_threads);
  if (tbb::global_control::active_value(kind) >= wanted) return;
  limit.reset();
  limit = std::make_unique<tbb::global_control>(kind, wanted);
}

// Put every thread that joins an arena on CPUs of the pool: TBB lends its threads to all
// arenas, and a thread keeps the CPUs of whoever started it.
//
// A static partition gives equal parts of a loop to equal slots. Where the pool has CPUs
// of several NUMA nodes each slot has its node, for as long as the caller works too.
class Binding : public tbb::task_scheduler_observer {
 public:
  Binding(tbb::task_arena& arena, int num_slots)
      : tbb::task_scheduler_observer(arena),
        nodes_(by_numa_node(current_affinity())),
        num_slots_(num_slots) {
    happens_before(this);
    observe(true);
  }
  ~Binding() override {
    observe(false);
    happens_after(this);
  }

  void on_scheduler_entry(bool is_worker) override {
    happens_after(this);
    if (!is_worker && nodes_.size() == 1) return;
    if (!is_worker) cpus_of_callers().push_back(current_affinity());
    const int slot = tbb::this_task_arena::current_thread_index();
    try_bind(node_of_slot(nodes_, slot, num_slots_));
    happens_before(this);
  }

  void on_scheduler_exit(bool is_worker) override {
    if (is_worker || nodes_.size() == 1) return;
    try_bind(cpus_of_callers().back());
    cpus_of_callers().pop_back();
    happens_before(this);
  }

 private:
  // Of the calling thread, as often as it has come in and not left.
  static std::vector<std::vector<int>>& cpus_of_callers() {
    thread_local std::vector<std::vector<int>> cpus;
    return cpus;
  }

  const std::vector<std::vector<int>> nodes_;
  const int num_slots_;
};

// A loop and the shares of it that workers take: these come behind what the caller did
// before, and before what it does next.
class Loop {
 public:
  Loop() { happens_before(this); }
  ~Loop() { happens_after(this); }
};

class Share {
 public:
  explicit Share(Loop& loop) : loop_(loop) { happens_after(&loop_); }
  ~Share() { happens_before(&loop_); }

 private:
  Loop& loop_;
};

void run_chunk(int64_t chunk, int64_t count, int64_t grain,
               const std::function<void(int64_t, int64_t)>& body) {
  DefaultFloatEnvironment default_rounding;
  const int64_t begin = chunk * grain;
  body(begin, begin + std::min(grain, count - begin));
}

}  // namespace

struct ThreadPool::Workers {
  explicit Workers(int num_threads) : arena(num_threads), binding(arena, num_threads) {}

  tbb::task_arena arena;
  Binding binding;
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  if (num_threads < 0) {
    throw std::invalid_argument("ThreadPool: num_threads is " +
                                std::to_string(num_threads) +
                                ", must be 0 (all CPUs of this process) or more");
  }
  if (num_threads_ == 0) num_threads_ = static_cast<int>(current_affinity().size());
  if (num_threads_ == 1) return;
  raise_thread_limit(num_threads_);
  workers_ = std::make_unique<Workers>(num_threads_);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count < 0 || grain < 1) {
    throw std::invalid_argument("ThreadPool: count " + std::to_string(count) +
                                " must not be negative, grain " + std::to_string(grain) +
                                " must be at least 1");
  }
  const int64_t num_chunks = count / grain + (count % grain != 0);
  if (!workers_ || num_chunks <= 1) {
    for (int64_t i = 0; i < num_chunks; ++i) run_chunk(i, count, grain, body);
    return;
  }
  Loop loop;
  workers_->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, num_chunks),
        [&](const tbb::blocked_range<int64_t>& chunks) {
          const Share share(loop);
          for (int64_t i = chunks.begin(); i < chunks.end(); ++i) {
            run_chunk(i, count, grain, body);
          }
        },
        tbb::static_partitioner());
  });
}

std::pair<std::string, std::string> tbb_versions() {
  return {TBB_VERSION_STRING, TBB_runtime_version()};
}

}  // namespace zero
