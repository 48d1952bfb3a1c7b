#include <algorithm>
#include <iterator>
#include <memory>
#include <span>

#include "launcher/bench/benches.h"
#include "launcher/bench/engine_loop.h"
#include "launcher/bench/plain_loop.h"
#include "launcher/bench/silent_process.h"
#include "launcher/process/process.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/derived.h"
#include "offload/topology.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

constexpr int64_t kNumEqualUnits = 24, kFewTokens = 64;

std::vector<int> first_of(const std::vector<int>& cpus, int count) {
  return {cpus.begin(), cpus.begin() + std::min<ptrdiff_t>(count, std::ssize(cpus))};
}

// Seconds of a step of all ranks together, when this one takes so many: their tokens per
// second add up.
double seconds_together(double seconds, Ranks& ranks) {
  double rate = 1 / seconds;
  ranks.all_reduce(std::span(&rate, 1), ReduceOp::kSum, "bench");
  return ranks.size() / rate;
}

class StepBench {
 public:
  StepBench(const BenchOptions& options, const ModelFamilies& models)
      : options_(options),
        family_(*find_family(models, options.settings.model)),
        shape_(shape_of_bench(family_, options.settings)),
        without_optimizer_([this] { return make_plain(false); }),
        with_adamw_([this] { return make_plain(true); }) {}

  std::vector<Row> run(const World& world);

 private:
  std::vector<Row> against_silence(const World& world, const std::vector<int>& cpus);
  std::vector<Row> hidden_updates(const std::vector<int>& cpus);
  SilentProcess::Step make_plain(bool with_optimizer) const;

  const BenchOptions options_;
  const ModelFamily& family_;
  const ModelShape shape_;
  SilentProcess without_optimizer_, with_adamw_;
  std::unique_ptr<EngineLoop> engine_, other_engine_;  // while they run
};

// In the silent process.
SilentProcess::Step StepBench::make_plain(bool with_optimizer) const {
  set_threads(static_cast<int>(std::ssize(current_affinity())));
  const PlainStep step = make_plain_step(make_model(family_, shape_),
                                         options_.settings.dtype, with_optimizer);
  return [this, step, seed = uint64_t{0}]() mutable {
    step(made_up_batch(options_.settings.micro_batch, shape_, seed++));
  };
}

std::vector<Row> StepBench::run(const World& world) {
  const std::vector<int> cpus =
      fair_share(cpuset_of_node(), world.local_rank(), world.local_size());
  const int num_threads = choose_threads(
      static_cast<int>(options_.settings.threads), false,
      threads_of_variable(process_environment()), static_cast<int>(cpus.size()));
  std::vector<Row> rows = against_silence(world, first_of(cpus, num_threads));
  if (world.size() > 1) return rows;
  if (cpus.size() < 2) {
    warn("how much of the updates hides is not measured: that takes two cores");
    return rows;
  }
  std::ranges::move(hidden_updates(first_of(cpus, 2)), std::back_inserter(rows));
  return rows;
}

std::vector<Row> StepBench::against_silence(const World& world,
                                            const std::vector<int>& cpus) {
  const Settings& settings = options_.settings;
  bind_process(cpus);
  set_threads(static_cast<int>(std::ssize(cpus)));
  engine_ = std::make_unique<EngineLoop>(family_, shape_, settings, world.make_ranks());
  Ranks& ranks = engine_->engine().control();
  int64_t adamw_bytes = 0, bare_bytes = 0;
  const auto silent = [&](SilentProcess& process, int64_t& peak_bytes) {
    return [&] {
      ranks.barrier("bench");
      const StepsTaken taken = process.run(settings.steps, cpus);
      peak_bytes = taken.peak_bytes;
      return seconds_together(taken.seconds / settings.steps, ranks);
    };
  };
  const auto engine = [&] {
    ranks.barrier("bench");
    return seconds_together(engine_->run(settings.steps) / settings.steps, ranks);
  };
  const std::vector<Seconds> seconds = alternate(
      {silent(without_optimizer_, bare_bytes), engine, silent(with_adamw_, adamw_bytes)},
      options_.rounds);
  const int64_t engine_bytes = peak_resident_bytes();
  const int64_t tokens = engine_->tokens_per_step() * world.size();
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const Seconds& measured, int64_t peak,
                       const std::string& limit, const Seconds& of_limit) {
    rows.push_back(with_result({{"name", name},
                                {"type", settings.dtype},
                                {"ranks", world.size()},
                                {"threads", std::ssize(cpus)},
                                {"tokens_per_s", tokens / median(measured)},
                                {"peak_mib", ranks.largest(peak, "bench") / kMiB}},
                               measured, 0, limit, of_limit));
  };
  const std::string bare = "silent, no optimizer", adamw = "silent, torch's AdamW";
  add("engine", seconds[1], engine_bytes, bare, seconds[0]);
  add("engine", seconds[1], engine_bytes, adamw, seconds[2]);
  add(adamw, seconds[2], adamw_bytes, bare, seconds[0]);
  add(bare, seconds[0], bare_bytes, bare, seconds[0]);
  engine_.reset();
  return rows;
}

// One core computes, the other one updates. Few tokens a step, whatever the settings say:
// with more of them an update would be too short a part of the step to be seen.
std::vector<Row> StepBench::hidden_updates(const std::vector<int>& cpus) {
  Settings settings = options_.settings;
  settings.micro_batch = 1;
  settings.adam_threads = 1;
  ModelShape shape = shape_;
  if (shape.layers() > 0) shape.config[shape.keys.layers] = kNumEqualUnits;
  const int64_t positions = shape.integer(shape.keys.positions);
  shape.seq_len = kFewTokens;
  if (positions > 0 && positions < kFewTokens)
    shape.config[shape.keys.positions] = kFewTokens;
  bind_process(cpus);
  set_threads(1);
  const auto make_loop = [&](bool overlaps) {
    settings.overlap_updates = overlaps;
    return std::make_unique<EngineLoop>(family_, shape, settings, make_one_rank());
  };
  engine_ = make_loop(false);
  other_engine_ = make_loop(true);
  const auto steps = [&](EngineLoop& loop, bool with_updates) {
    return [&, with_updates] {
      return loop.run(settings.steps, with_updates) / static_cast<double>(settings.steps);
    };
  };
  const std::vector<Seconds> seconds = alternate(
      {steps(*engine_, false), steps(*engine_, true), steps(*other_engine_, true)},
      options_.rounds);
  const auto row_of = [&](const std::string& name, const Seconds& measured) {
    return with_result({{"name", name},
                        {"type", settings.dtype},
                        {"ranks", 1},
                        {"threads", 1},
                        {"units", kNumEqualUnits},
                        {"tokens_per_s", engine_->tokens_per_step() / median(measured)}},
                       measured, 0, "no updates", seconds[0]);
  };
  std::vector<Row> rows = {row_of("updates in step", seconds[1]),
                           row_of("updates queued", seconds[2])};
  rows[1]["hidden"] = hidden_part(seconds[1], seconds[2], seconds[0]);
  engine_.reset();
  other_engine_.reset();
  return rows;
}

}  // namespace

ModelShape shape_of_bench(const ModelFamily& family, const Settings& settings) {
  if (family.task != Task::kLanguage)
    throw Error(ExitCode::kUsage, "bench is for models of language",
                "--model " + family.name,
                "train, whose lines tell the time of each step");
  ModelShape shape = new_shape(family, settings);
  fit_to_data(shape, family, Settings());
  return shape;
}

std::function<std::vector<Row>(const World& world)> bench_step(
    const BenchOptions& options, const ModelFamilies& models) {
  const auto bench = std::make_shared<StepBench>(options, models);
  return [bench](const World& world) { return bench->run(world); };
}

}  // namespace zero::launcher
