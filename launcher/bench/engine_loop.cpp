#include "launcher/bench/engine_loop.h"

#include <random>

#include "launcher/bench/rounds.h"
#include "launcher/run/runner.h"
#include "launcher/settings/derived.h"
#include "zero/engine.h"
#include "zero/ranks.h"

namespace zero::launcher {

Batch made_up_batch(int64_t rows, const ModelShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  Batch batch = data::empty_batch(rows, shape.seq_len);
  const auto token = [&] {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(shape.vocab()));
  };
  for (int64_t& input : batch.inputs) input = token();
  for (int64_t& target : batch.targets) target = token();
  return batch;
}

EngineLoop::EngineLoop(const ModelFamily& family, const ModelShape& shape,
                       const Settings& settings, std::unique_ptr<Ranks> ranks)
    : shape_(shape), rows_(settings.micro_batch), model_(make_deferred(family, shape)) {
  const BatchPlan batch = one_pass(rows_, ranks->size(), ranks->rank());
  const Options options = engine_options(settings, batch, shape, family);
  engine_ = std::make_unique<Engine>(model_->module(), options, std::move(ranks));
  runner_ = std::make_unique<Runner>(*model_, *engine_);
}

EngineLoop::~EngineLoop() = default;

double EngineLoop::run(int64_t num_steps, bool with_updates) {
  step(with_updates);
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < num_steps; ++i) step(with_updates);
  });
  engine_->shards();  // waits for updates that are queued
  return seconds;
}

void EngineLoop::step(bool with_updates) {
  const uint64_t seed = num_batches_++ * engine_->size() + engine_->rank();
  runner_->train(made_up_batch(rows_, shape_, seed));
  if (with_updates)
    engine_->step();
  else
    engine_->discard_gradients();
}

}  // namespace zero::launcher
