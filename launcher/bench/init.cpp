#include "launcher/bench/benches.h"
#include "launcher/data/batches.h"
#include "launcher/process/process.h"
#include "launcher/process/world.h"
#include "launcher/run/lines.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/derived.h"
#include "zero/engine.h"
#include "zero/ranks.h"

namespace zero::launcher {

std::vector<Row> bench_init(const BenchOptions& options, const ModelFamilies& models,
                            const World& world) {
  const Settings& settings = options.settings;
  const ModelFamily& family = *find_family(models, settings.model);
  const ModelShape shape = shape_of_bench(family, settings);
  Options of_engine =
      engine_options(settings, one_pass(1, world.size(), world.rank()), shape, family);
  of_engine.inference = true;
  of_engine.prefetch = 0;  // one unit at a time
  const std::unique_ptr<Ranks> ranks = world.make_ranks();
  const auto most = [&](int64_t bytes) { return ranks->largest(bytes, "bench") / kMiB; };
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  int64_t before = 0, built = 0;
  Row row;
  const auto build = [&] {
    engine.reset();
    model.reset();
    before = peak_resident_bytes();
    const double taken = seconds_of([&] { model = make_deferred(family, shape); });
    built = peak_resident_bytes();
    return taken;
  };
  const auto init = [&] {
    ranks->barrier("bench");
    const double taken = seconds_of([&] {
      engine = std::make_unique<Engine>(model->module(), of_engine, world.make_ranks());
      ranks->barrier("bench");
    });
    if (!row.empty()) return taken;  // the peak is that of the first
    int64_t shards = 0;
    for (const ShardView& shard : engine->shards())
      shards += static_cast<int64_t>(shard.master.size() * sizeof(float));
    row = {{"parameters", engine->num_parameters()},
           {"ranks", world.size()},
           {"build_mib", most(built - before)},
           {"shards_mib", most(shards)},
           {"beside_shards_mib", most(peak_resident_bytes() - built - shards)}};
    return taken;
  };
  const std::vector<Seconds> seconds = alternate({build, init}, options.rounds);
  row["build_s"] = median(seconds[0]);
  row["init_s"] = median(seconds[1]);
  row["million_per_s"] = row["parameters"].get<double>() / median(seconds[1]) / 1e6;
  return {row};
}

}  // namespace zero::launcher
