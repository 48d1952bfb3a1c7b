// Updates beside the next forward, with random delays in every stream and NaN in what was
// released: the bits of a run without chaos whose updates are over when step() is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/dtype.h"
#include "engine/device/host_device.h"
#include "engine/step/update_queue.h"
#include "engine/weights/torch/weight_streamer.h"
#include "tests/engine/training.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::testing::engine_chaos_test {
namespace {

Gpt2Config tiny_gpt2() {
  return {.n_layer = 2, .n_head = 1, .n_embd = 8, .n_positions = 4, .vocab_size = 17};
}

// What a rank does after each step; what it sees goes into the run's state.
struct Between {
  const char* name;
  uint64_t last_seed;  // of the one before
  void (*look)(Engine& engine, Gpt2Impl& model, const std::string& run, Trained& seen);
};

std::string key(const Engine& engine, const char* what) {
  return what + std::to_string(engine.num_steps()) + "/" + std::to_string(engine.rank());
}

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

void nothing(Engine&, Gpt2Impl&, const std::string&, Trained&) {}

void evaluation(Engine& engine, Gpt2Impl& model, const std::string&, Trained& seen) {
  const torch::NoGradGuard no_grad;
  const auto [tokens, targets] = batch_of({.seq_len = 4}, 17, 99, engine.rank());
  Gpt2Impl* pointer = &model;
  seen.state[key(engine, "loss ")] = floats(engine.forward(pointer, tokens, targets));
}

void full_parameter(Engine& engine, Gpt2Impl&, const std::string&, Trained& seen) {
  const at::Tensor value = engine.full_parameter("transformer.h.1.mlp.c_proj.weight");
  seen.state[key(engine, "value ")] = floats(value);
}

// Of the unit that is updated last.
void write(Engine& engine, Gpt2Impl&, const std::string&, Trained&) {
  const std::string fqn = "transformer.h.1.ln_1.weight";
  engine.set_full_parameter(fqn, torch::full({8}, 1.0 + 0.1 * engine.num_steps()));
}

// What was saved replaces what is there: the same. Once, for a disk takes its time.
void save_and_load(Engine& engine, Gpt2Impl&, const std::string& run, Trained&) {
  if (engine.num_steps() > 1) return;
  SavedState state;
  state.step = engine.num_steps();
  load_checkpoint(engine, save_checkpoint(engine, run, state));
}

class EngineChaos : public ::testing::TestWithParam<Between> {
 protected:
  ~EngineChaos() override { std::filesystem::remove_all(run_); }

  Trained run(int ranks, const Options& options, const Work& work) {
    std::filesystem::remove_all(run_);
    std::vector<Trained> seen(ranks);
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl& model, int) {
      GetParam().look(engine, model, run_, seen[engine.rank()]);
    };
    Trained result = train(ranks, options, work, hooks, tiny_gpt2());
    for (Trained& of_rank : seen) result.state.merge(of_rank.state);
    return result;
  }

  const std::string run_ =
      ::testing::TempDir() + "engine_chaos_" + std::to_string(getpid());
};

TEST_P(EngineChaos, FortySeedsGiveTheBitsOfUpdatesInsideTheStep) {
  uint64_t seed = GetParam().last_seed;
  for (const int ranks : {1, 2}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      for (const int passes : {1, 2}) {
        const Work work{.steps = 2, .micro_batches = passes * ranks, .seq_len = 4};
        Options options = small_options(work);
        options.dtype = dtype;
        options.clip = 0.1;
        options.schedule.warmup_steps = work.steps;  // each step has a rate of its own
        options.overlap_updates = false;
        const Trained serial = run(ranks, options, work);
        EXPECT_GT(serial.norms[0], options.clip);
        options.overlap_updates = true;
        for (int i = 0; i < 5; ++i) {
          options.chaos_seed = ++seed;
          options.prefetch = i % 3;
          options.stream_always = i % 2 == 1;
          options.recompute = i < 2 ? Recompute::kNone : Recompute::kUnit;
          SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(ranks) +
                       " ranks, " + name_of(dtype) + ", " + std::to_string(passes));
          expect_same(run(ranks, options, work), serial);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Between, EngineChaos,
                         ::testing::Values(Between{"nothing", 0, nothing},
                                           Between{"evaluation", 40, evaluation},
                                           Between{"full_parameter", 80, full_parameter},
                                           Between{"write", 120, write},
                                           Between{"save_and_load", 160, save_and_load}),
                         [](const auto& info) { return std::string(info.param.name); });

// --- where bodies are functions on a compute stream that runs behind its caller

constexpr int kNumUnits = 3;  // with the root
constexpr int64_t kNumel = 8;

UnitPlan plan_of_units(const Options& options) {
  const std::vector<UnitDescription> units = {
      {"", "Model", -1}, {"a", "Block", 0}, {"b", "Block", 0}};
  const std::vector<ParamDescription> params = {{"w", {kNumel}, {"w"}, {0}},
                                                {"a.w", {kNumel}, {"a.w"}, {1}},
                                                {"b.w", {kNumel}, {"b.w"}, {2}}};
  return make_unit_plan(units, params, options, 1);
}

// Weights, a step's gradients and their update, as an Engine puts them together; what
// bodies see of weights, and the masters in the end.
std::vector<float> train_behind(const Options& options, const HostDeviceOptions& host) {
  const UnitPlan plan = plan_of_units(options);
  const MemoryPlan memory = make_memory_plan(plan, options);
  const auto comm = make_one_rank()->make_collectives();
  const auto device = make_host_device(host);
  ShardStore shards(plan, memory, *device, /*rank=*/0);
  const auto stream = device->make_stream("communication");
  ThreadPool threads(1);
  std::vector<at::Tensor> params(kNumUnits);
  for (at::Tensor& param : params) param = torch::zeros({kNumel});
  const Workplace at{plan, memory, options, shards, *device, *comm, threads};
  UpdateQueue updates(at);
  WeightStreamer weights(at, params, *stream,
                         [&](int unit) -> const Event& { return updates.ready(unit); });

  HostStream& compute = as_host_stream(device->compute_stream());
  const auto run = [&](int unit, WeightStreamer::Direction direction,
                       std::function<void(float)> body) {
    const WeightStreamer::Unsharded unsharded(weights, unit, direction);
    compute.enqueue([=, weights = params[unit].const_data_ptr()] {
      for (int64_t i = 0; i < kNumel; ++i) {
        body(options.dtype == DType::kBf16
                 ? bf16_to_float(static_cast<const uint16_t*>(weights)[i])
                 : static_cast<const float*>(weights)[i]);
      }
    });
  };
  std::vector<float> seen;
  for (int step = 0; step < 4; ++step) {
    std::vector<float> grads[kNumUnits];
    for (int unit = 0; unit < kNumUnits; ++unit) {
      run(unit, WeightStreamer::Direction::kForward,
          [&](float weight) { seen.push_back(weight); });
    }
    for (int unit = kNumUnits - 1; unit >= 0; --unit) {
      run(unit, WeightStreamer::Direction::kBackward,
          [&grad = grads[unit]](float weight) {
            grad.push_back(weight + 1 + static_cast<float>(grad.size()));
          });
    }
    updates.finish();
    compute.synchronize();  // the norm needs all of them
    float norm = 0;
    for (int unit = 0; unit < kNumUnits; ++unit) {
      std::ranges::copy(grads[unit], shards[unit].grad);
      for (const float grad : grads[unit]) norm += std::abs(grad);
    }
    updates.begin(std::vector<int64_t>(plan.rules.size(), step + 1), 0.1 / (step + 1),
                  1 / norm);
    weights.invalidate(/*frozen_too=*/false);
  }
  updates.finish();
  stream->synchronize();  // gathers end before their ring
  for (int part = 0; part < kNumUnits; ++part)
    seen.insert(seen.end(), shards[part].master, shards[part].master + kNumel);
  return seen;
}

TEST(UpdatesBehindACaller, FiftySeedsGiveTheBitsOfUpdatesInsideTheStep) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    Options options;
    options.dtype = dtype;
    options.stream_always = true;
    options.overlap_updates = false;
    const std::vector<float> serial = train_behind(options, {.async_compute = true});
    options.overlap_updates = true;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      options.prefetch = static_cast<int>(seed % 3);
      EXPECT_EQ(train_behind(options, {.chaos_seed = seed, .async_compute = true}), serial)
          << seed;
    }
  }
}

}  // namespace
}  // namespace zero::testing::engine_chaos_test
