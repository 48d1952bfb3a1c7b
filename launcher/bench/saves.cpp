#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/processes.h"
#include "checkpoint/buffer.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/open_run.h"
#include "checkpoint/own_files.h"
#include "engine/save/saved_arrays.h"
#include "launcher/bench/bench_ranks.h"
#include "launcher/bench/benches.h"
#include "launcher/bench/engine_loop.h"
#include "launcher/process/process.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "launcher/settings/chosen_model.h"
#include "zero/engine.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::launcher {
namespace {

// What one thread takes to hash as many bytes and write them to a file of its own.
class PlainWriter {
 public:
  PlainWriter(const std::string& folder, int64_t bytes)
      : folder_(folder), name_(checkpoint::temporary_name("plain")), bytes_(bytes) {
    std::fill_n(room_.data(), kRoom, '\1');  // else all of it is the kernel's page of
                                             // zeros
  }

  // Past the system's cache, or through it; with an fsync.
  double write(bool is_direct) {
    double seconds = 0;
    std::thread([&] {
      const double cpu = cpu_seconds_of_thread();
      seconds = seconds_of([&] { write_file(is_direct); });
      cpu_seconds_ = cpu_seconds_of_thread() - cpu;
    }).join();
    checkpoint::remove_file(folder_, name_);
    return seconds;
  }
  double cpu_seconds() const { return cpu_seconds_; }

 private:
  void write_file(bool is_direct) {
    checkpoint::File file = folder_.create(name_, checkpoint::system_io());
    for (int64_t at = 0; at < bytes_; at += kAtOnce) {
      const int64_t part = std::min(kAtOnce, bytes_ - at);
      for (int64_t chunk = 0; chunk < part; chunk += checkpoint::kChunkBytes)
        sum_ +=
            hash_of(bytes(at) + chunk, std::min(checkpoint::kChunkBytes, part - chunk));
      is_direct ? file.write_direct(bytes(at), part, at, checkpoint::system_io())
                : file.write(bytes(at), part, at, checkpoint::system_io());
    }
    file.sync(checkpoint::system_io());
  }
  // Of memory that no cache holds.
  const char* bytes(int64_t at) const { return room_.data() + at % kRoom; }

  static constexpr int64_t kAtOnce = 4 << 20, kRoom = 256 << 20;
  const checkpoint::Folder folder_;
  const std::string name_;
  const int64_t bytes_;
  const checkpoint::Buffer room_{kRoom};
  uint64_t sum_ = 0;
  double cpu_seconds_ = 0;
};

// Checkpoints of an engine, each of another step, of which the last alone stays.
class SavedSteps {
 public:
  // Collective.
  SavedSteps(Engine& engine, const std::string& above)
      : engine_(engine), folder_(above, engine.control()) {}

  const std::string& path() const { return folder_.path(); }
  void remove_last() {
    if (engine_.rank() == 0 && step_ > 0)
      checkpoint::OpenRun(path()).remove(checkpoint::step_folder(step_));
  }
  std::shared_ptr<Save> begin() {
    SavedState state;
    state.step = ++step_;
    return save_async(engine_, path(), state);
  }
  // Seconds of one that is waited for. Collective.
  double save() {
    remove_last();
    engine_.control().barrier("bench");
    return seconds_of([this] { begin()->wait(); });
  }

 private:
  Engine& engine_;
  const BenchFolder folder_;
  int64_t step_ = 0;
};

}  // namespace

std::vector<Row> bench_saves(const BenchOptions& options, const ModelFamilies& models,
                             const World& world) {
  const Cores cores = take_cores(world, options.settings.bind);
  set_threads(choose_threads(static_cast<int>(options.settings.threads), false,
                             threads_of_variable(process_environment()), cores.share));
  const ModelFamily& family = *find_family(models, options.settings.model);
  EngineLoop loop(family, shape_of_bench(family, options.settings), options.settings,
                  world.make_ranks());
  Engine& engine = loop.engine();
  Ranks& ranks = engine.control();
  SavedSteps saved(engine, options.settings.out);
  const int64_t bytes = bytes_of(shard_slices(engine, /*with_state=*/true));
  PlainWriter plain(saved.path(), bytes);
  loop.step();

  const auto slowest = [&](Contestant work) {
    return slowest_of(ranks, std::move(work));
  };
  const double of_save = slowest([&] { return saved.save(); })();
  const double of_step = slowest([&] { return loop.run(2) / 2; })();
  const auto num_steps = static_cast<int64_t>(std::ceil(2 * of_save / of_step)) + 1;

  Seconds save_seconds, save_cpu, plain_cpu;
  const std::vector<Seconds> seconds =
      alternate({slowest([&] { return plain.write(false); }), slowest([&] {
                   const double taken = plain.write(true);
                   plain_cpu.push_back(plain.cpu_seconds());
                   return taken;
                 }),
                 slowest([&] { return saved.save(); }),
                 slowest([&] { return loop.run(num_steps); }), slowest([&] {
                   saved.remove_last();
                   loop.step();
                   const auto save = saved.begin();
                   const double taken = seconds_of([&] {
                     for (int64_t i = 0; i < num_steps; ++i) loop.step();
                   });
                   save->wait();
                   save_seconds.push_back(save->seconds());
                   save_cpu.push_back(save->cpu_seconds());
                   return taken;
                 })},
                options.rounds);
  const bool direct_is_better = median(seconds[1]) < median(seconds[0]);
  const int64_t all_bytes = bytes * ranks.size();
  Row sync = with_result(
      {{"name", "steps wait"}, {"ranks", ranks.size()}, {"bytes", all_bytes}}, seconds[2],
      all_bytes,
      direct_is_better ? "plain file past the cache" : "plain file through the cache",
      seconds[direct_is_better ? 1 : 0]);
  const double lost = median(seconds[4] - seconds[3]);
  Row async = {{"name", "beside steps"},
               {"ranks", ranks.size()},
               {"bytes", all_bytes},
               {"seconds", median(save_seconds)},
               {"steps", num_steps},
               {"steps_seconds", median(seconds[3])},
               {"lost_seconds", lost},
               {"lost_of_steps", lost / median(seconds[3])},
               {"cpu_seconds", median(save_cpu)},
               {"plain_cpu_seconds", median(plain_cpu)}};
  return {std::move(sync), std::move(async)};
}

}  // namespace zero::launcher
