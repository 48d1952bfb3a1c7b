// Masters, states, weights and sums of gradients that lie on a GPU, some or all: not a
// bit changes, whoever makes the update. The GPU is the stand-in, whose kernels run the
// code of a real one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "engine/device/host_device.h"
#include "tests/engine/training.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::testing::state_standin_test {
namespace {

// Where shards may lie.
struct Home {
  const char* name;
  Offload offload;
  double fraction;
  GradSums sums = GradSums::kHost;
};
constexpr Home kHomes[] = {{"weights", Offload::kOptimizer, 0},
                           {"all", Offload::kNone, 0},
                           {"half", Offload::kAll, 0.6},
                           {"weights and half", Offload::kOptimizer, 0.6},
                           {"sums", Offload::kAll, 0, GradSums::kDevice},
                           {"half and sums", Offload::kAll, 0.6, GradSums::kDevice}};

class StateStandinTest : public ::testing::Test {
 protected:
  Options at(const Home& home) const {
    Options there = options;
    there.device = DeviceChoice::kCuda;
    there.offload = home.offload;
    there.device_state_fraction = home.fraction;
    there.grad_sums = home.sums;
    return there;
  }

  Trained train_at(const Home& home, int ranks, const Hooks& hooks = {}) {
    of_standin<void()>("standin_reset")();
    return train(ranks, at(home), work, hooks);
  }

  // Wherever shards lie the bits are the host's; so are the engine's bytes the plan's.
  void expect_same_everywhere(int ranks = 1) {
    const Trained on_host = train(ranks, options, work);
    for (const Home& home : kHomes) {
      SCOPED_TRACE(home.name);
      expect_same(train_at(home, ranks,
                           {.before_step_end = {},
                            .after_step = [](Engine& engine, Gpt2Impl&,
                                             int) { expect_planned_bytes(engine); }}),
                  on_host);
      EXPECT_EQ(ask_standin("standin_num_left"), 0);
    }
  }

  void use_bf16() {
    options.dtype = options.reduce_dtype = options.grad_dtype = DType::kBf16;
  }
  void pass_once_a_step() { work.micro_batches = 1; }

  Work work{.steps = 3, .micro_batches = 4};
  Options options = small_options(work);
};

TEST_F(StateStandinTest, TheBitsOfTheHost) {
  options.clip = 0.5;
  expect_same_everywhere();
}

// Its state leaves a GPU in a stream of its own, before the next update of each unit.
TEST_F(StateStandinTest, ASaveBesideStepsHoldsTheStepItWasAskedForAt) {
  const std::string run = ::testing::TempDir() + "state_standin_saves";
  std::vector<std::shared_ptr<Save>> saves(2);
  std::string path;
  const auto after_step = [&](Engine& engine, Gpt2Impl&, int step) {
    std::shared_ptr<Save>& save = saves[engine.rank()];
    if (step == 0) save = save_async(engine, run, {.step = 1}, {.replace = true});
    if (step == work.steps - 1) path = save->wait();
  };
  const auto manifest = [&] {
    std::ostringstream text;
    text << std::ifstream(path + "/manifest.json").rdbuf();
    return text.str();
  };
  for (const int ranks : {1, 2}) {
    const Hooks hooks{.before_step_end = {}, .after_step = after_step};
    train(ranks, options, work, hooks);
    const std::string of_host = manifest();
    for (const Home& home : kHomes) {
      SCOPED_TRACE(home.name + std::string(", ranks ") + std::to_string(ranks));
      options.chaos_seed = 5;
      train_at(home, ranks, hooks);
      options.chaos_seed = 0;
      EXPECT_EQ(manifest(), of_host);
    }
  }
  std::filesystem::remove_all(run);
}

// CUDA may let the thread that saves do nothing while a stream waits for it: what it
// reads on the GPU is updated once it was read, by a thread that waited.
TEST_F(StateStandinTest, NoStreamOfTheGpuWaitsForASave) {
  const std::string run = ::testing::TempDir() + "state_standin_waits";
  std::shared_ptr<Save> save;
  int saved = 0;
  const Hooks hooks{.before_step_end = {},
                    .after_step = [&](Engine& engine, Gpt2Impl&, int step) {
                      if (step == saved)
                        save = save_async(engine, run, {.step = 1}, {.replace = true});
                      if (step == work.steps - 1) save->wait();
                    }};
  const Home& all = kHomes[1];
  const Trained without = train_at(all, 1);
  for (const int step : {0, work.steps - 2}) {
    saved = step;
    set_delays({{"save", 100}});  // a unit, beside steps that are shorter
    expect_same(train_at(all, 1, hooks), without);
    set_delays({});
    EXPECT_EQ(ask_standin("standin_num_stream_waits"), 0);
  }
  std::filesystem::remove_all(run);
}

// By name, beside what holds for the others.
TEST_F(StateStandinTest, SomeUnitsLieElsewhere) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    options.dtype = dtype;
    const Trained on_host = train(2, options, work);
    Options there = options;
    there.device = DeviceChoice::kCuda;
    there.unit_options = {{"*.h.0", {}, {}, Offload::kNone},
                          {"*.h.1", {}, {}, Offload::kOptimizer}};
    of_standin<void()>("standin_reset")();
    expect_same(train(2, there, work,
                      {.before_step_end = {},
                       .after_step = [](Engine& engine, Gpt2Impl&,
                                        int) { expect_planned_bytes(engine); }}),
                on_host);
  }
}

TEST_F(StateStandinTest, OnePassAStep) {
  pass_once_a_step();
  expect_same_everywhere();
}

TEST_F(StateStandinTest, OtherNorms) {
  options.norm = NormType::kL1;
  expect_same_everywhere();
  options.norm = NormType::kInf;
  expect_same_everywhere();
}

// Fewer and more, whose norm is taken at the end.
TEST_F(StateStandinTest, OtherPassesThanPlanned) {
  options.micro_batches_per_rank = 2;
  const auto norms_of = [&](const Options& given) {
    const auto model = deferred_gpt2(small_gpt2());
    Engine engine(model, given);
    std::vector<double> norms;
    for (const int num_passes : {1, 2, 3, 2}) {
      for (int pass = 0; pass < num_passes; ++pass) {
        const auto [tokens, targets] =
            batch_of(work, small_gpt2().vocab_size, num_passes, pass);
        engine.backward(engine.forward(model, tokens, targets), targets.numel());
      }
      norms.push_back(engine.step().grad_norm);
    }
    return norms;
  };
  for (const int num_planned : {2, 1}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      options.dtype = dtype;
      options.micro_batches_per_rank = num_planned;
      const std::vector<double> on_host = norms_of(options);
      for (const Home& home : kHomes)
        EXPECT_EQ(norms_of(at(home)), on_host)
            << home.name << ", planned " << num_planned;
      EXPECT_EQ(norms_of(at({"all on the host", Offload::kAll, 0})), on_host);
    }
  }
}

TEST_F(StateStandinTest, InBf16) {
  use_bf16();
  expect_same_everywhere();
  options.reduce_dtype = DType::kFp32;
  expect_same_everywhere();
  pass_once_a_step();  // gradients kept in 2 bytes
  options.master = MasterStorage::kSplit;
  expect_same_everywhere();
  options.optimizer.beta2 = 0.95;
  options.state_dtype = DType::kBf16;
  expect_same_everywhere();
}

TEST_F(StateStandinTest, InFp16) {
  options.dtype = DType::kFp16;
  options.loss_scale.init = 1 << 10;
  expect_same_everywhere();
}

TEST_F(StateStandinTest, Deterministic) {
  options.deterministic = true;
  expect_same_everywhere();
  expect_same_everywhere(2);
}

TEST_F(StateStandinTest, SeveralRanks) {
  for (const int ranks : {2, 4}) expect_same_everywhere(ranks);
  use_bf16();
  expect_same_everywhere(2);
  options.dtype = DType::kFp16;
  options.reduce_dtype = options.grad_dtype = DType::kFp32;
  options.loss_scale.init = 1 << 10;
  expect_same_everywhere(2);
}

TEST_F(StateStandinTest, KeptGraphsAndWeights) {
  options.recompute = Recompute::kNone;
  expect_same_everywhere();
  options.reshard_after_forward = false;
  expect_same_everywhere(2);
}

TEST_F(StateStandinTest, NothingInPlace) {
  options.stream_always = true;
  expect_same_everywhere();
  use_bf16();
  expect_same_everywhere();
}

TEST_F(StateStandinTest, UpdatesInsideTheStep) {
  options.overlap_updates = false;
  expect_same_everywhere();
}

TEST_F(StateStandinTest, FrozenParameters) {
  options.groups = {{.pattern = "*attn*", .frozen = true}};
  use_bf16();
  expect_same_everywhere();
  options.frozen_dtype = DType::kBf16;
  expect_same_everywhere(2);
}

TEST_F(StateStandinTest, MovementsAreSeenWhereverStatesLie) {
  options.groups = {{.pattern = "*attn*", .lr_scale = 0}};
  const auto expect_movements = [](Engine& engine, Gpt2Impl&, int) {
    for (const ParamMovement& each : engine.movements()) {
      EXPECT_TRUE(each.had_gradient) << each.fqn;
      EXPECT_EQ(each.moved, each.fqn.find("attn") == each.fqn.npos) << each.fqn;
    }
  };
  for (const Home& home : kHomes)
    train_at(home, 2, {.before_step_end = {}, .after_step = expect_movements});
}

TEST_F(StateStandinTest, FrozenParametersThatAreDecoded) {
  options.groups = {{.pattern = "*attn*", .frozen = true}};
  options.frozen_dtype = DType::kBf16;
  expect_same_everywhere(2);
  options.frozen_dtype = DType::kInt8;
  expect_same_everywhere(1);
  use_bf16();
  options.chaos_seed = 4;
  expect_same_everywhere(2);
}

TEST_F(StateStandinTest, OtherOptimizersStayOnTheHost) {
  options.optimizer.kind = Optimizer::kLion;
  options.optimizer.beta2 = 0.99;
  expect_same(train_at(kHomes[0], 1), train(1, options, work));
}

TEST_F(StateStandinTest, ChaosChangesNoBit) {
  const Trained calm = train(1, options, work);
  for (const Home& home : kHomes) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(::testing::Message() << home.name << ", seed " << seed);
      options.chaos_seed = seed;
      options.stream_always = seed == 3;
      expect_same(train_at(home, 1), calm);
    }
  }
}

// What has room to stay is not gathered: nothing at all on one rank.
TEST_F(StateStandinTest, OneRankGathersNothingOfWhatIsThere) {
  EXPECT_EQ(train_at(kHomes[0], 1).num_gathers, 0);
  EXPECT_EQ(train_at(kHomes[1], 1).num_gathers, 0);
  const int64_t of_half = train_at(kHomes[2], 1).num_gathers;
  EXPECT_GT(of_half, 0);
  EXPECT_LT(of_half, train_at({"", Offload::kAll, 0}, 1).num_gathers);
}

TEST_F(StateStandinTest, TheFirstUnitsAreThoseOfTheFraction) {
  std::vector<std::string> on_gpu;
  train_at(kHomes[2], 1,
           {.before_step_end = {}, .after_step = [&](Engine& engine, Gpt2Impl&, int) {
              on_gpu.clear();
              int64_t numel = 0;
              for (const ShardView& view : engine.shards()) {
                if (view.master.is_plain()) continue;
                on_gpu.push_back(view.fqn);
                numel += static_cast<int64_t>(view.master.size());
              }
              EXPECT_LE(numel, 0.6 * static_cast<double>(engine.num_parameters()));
            }});
  EXPECT_TRUE(std::ranges::count(on_gpu, "transformer.wte.weight"));  // of the root
  EXPECT_TRUE(std::ranges::count(on_gpu, "transformer.h.0.ln_1.weight"));
  EXPECT_FALSE(std::ranges::count(on_gpu, "transformer.h.2.ln_1.weight"));
}

// --- who reads and writes them otherwise

class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "state_standin_test") {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST_F(StateStandinTest, ACheckpointKnowsNothingOfIt) {
  work.steps = 1;
  use_bf16();
  options.master = MasterStorage::kSplit;  // in all the ways in which values are stored
  options.optimizer.beta2 = 0.95;
  options.state_dtype = DType::kBf16;
  const Trained on_host = train(1, options, work);
  for (const Home& from : kHomes) {
    const Folder folder;
    std::string saved;
    train_at(from, 1,
             {.before_step_end = {}, .after_step = [&](Engine& engine, Gpt2Impl&, int) {
                SavedState state;
                state.step = 1;
                saved = save_checkpoint(engine, folder.path(), state);
              }});
    for (const Home& to : {kHomes[1], kHomes[2], Home{"host", Offload::kAll, 0}}) {
      SCOPED_TRACE(std::string(from.name) + " to " + to.name);
      const auto model = deferred_gpt2(small_gpt2());
      Engine engine(model, at(to));
      load_checkpoint(engine, saved);
      Trained loaded;
      collect_shards(engine, loaded);
      EXPECT_EQ(loaded.params, on_host.params);
      EXPECT_EQ(loaded.state, on_host.state);
    }
  }
}

// The next step computes with what was written.
TEST_F(StateStandinTest, ParametersAreReadAndWritten) {
  work.steps = 2;
  const auto write = [](Engine& engine, Gpt2Impl&, int step) {
    if (step > 0) return;
    const std::string fqn = "transformer.h.0.mlp.c_fc.weight";
    const at::Tensor before = engine.full_parameter(fqn);
    engine.set_full_parameter(fqn, before * 2);
    EXPECT_TRUE(engine.full_parameter(fqn).equal(before * 2));
    for (const ShardView& view : engine.shards()) {
      if (view.fqn != "transformer.ln_f.bias") continue;
      view.master.write(0, std::vector<float>(view.master.size(), 0.5f));
      EXPECT_EQ(view.master[3], 0.5f);
      view.state[0].values.write(1, std::vector<float>{0.25f});
      EXPECT_EQ(view.state[0].values[1], 0.25f);
    }
    engine.masters_changed();
  };
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    options.dtype = dtype;
    const Hooks hooks{.before_step_end = {}, .after_step = write};
    const Trained on_host = train(1, options, work, hooks);
    for (const Home& home : kHomes) expect_same(train_at(home, 1, hooks), on_host);
  }
}

TEST_F(StateStandinTest, GradientsAreRead) {
  work.steps = 1;
  std::vector<at::Tensor> found;
  const Hooks hooks{.before_step_end =
                        [&](Engine& engine, Gpt2Impl&, int) {
                          for (const char* fqn :
                               {"transformer.wte.weight", "transformer.h.1.ln_2.weight"})
                            found.push_back(engine.full_gradient(fqn));
                        },
                    .after_step = {}};
  for (const bool in_bf16 : {false, true}) {
    if (in_bf16) use_bf16(), pass_once_a_step();
    train(1, options, work, hooks);
    for (const Home& home : kHomes) train_at(home, 1, hooks);
    for (size_t i = 2; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(found[i % 2]));
    found.clear();
  }
}

// Nothing changes, and the parameter is named.
TEST_F(StateStandinTest, AStepThatIsNotFiniteIsSkipped) {
  work.steps = 1;
  for (const Home& home : kHomes) {
    SCOPED_TRACE(home.name);
    const auto model = deferred_gpt2(small_gpt2());
    Engine engine(model, at(home));
    const auto [tokens, targets] = batch_of(work, small_gpt2().vocab_size, 0, 0);
    const std::vector<float> before =
        engine.local_shard("transformer.wte.weight").master.read_all();
    for (int pass = 0; pass < work.micro_batches; ++pass) {
      at::Tensor loss = engine.forward(model, tokens, targets);
      if (pass == 1) loss = loss * std::numeric_limits<float>::infinity();
      engine.backward(loss, targets.numel());
    }
    const StepReport report = engine.step();
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.first_bad, "transformer.wte.weight");
    EXPECT_EQ(engine.local_shard("transformer.wte.weight").master.read_all(), before);
  }
}

TEST_F(StateStandinTest, ABackwardThatWasForgottenLeavesNoTrace) {
  work.steps = 2;
  pass_once_a_step();  // its norm is taken at once
  const Trained calm = train(1, options, work);
  const Hooks hooks{
      .before_step_end = {}, .after_step = [&](Engine& engine, Gpt2Impl& trained, int) {
        Gpt2Impl* model = &trained;
        const auto [tokens, targets] = batch_of(work, small_gpt2().vocab_size, 7, 0);
        engine.backward(engine.forward(model, tokens, targets), 5);
        engine.discard_gradients();
      }};
  for (const Home& home : kHomes) {
    SCOPED_TRACE(home.name);
    EXPECT_EQ(train_at(home, 1, hooks).norms, calm.norms);
  }
}

TEST_F(StateStandinTest, ForInferenceWeightsStay) {
  const auto [tokens, targets] = batch_of(work, small_gpt2().vocab_size, 0, 0);
  const torch::NoGradGuard no_grad;
  options.inference = true;
  options.dtype = DType::kBf16;
  const auto loss_of = [&](const Options& given) {
    const auto model = deferred_gpt2(small_gpt2());
    Engine engine(model, given);
    expect_planned_bytes(engine);
    const at::Tensor loss = engine.forward(model, tokens, targets).cpu();
    EXPECT_EQ(engine.num_gathers() == 0,
              given.offload != Offload::kAll || given.device != DeviceChoice::kCuda);
    return loss;
  };
  const at::Tensor on_host = loss_of(options);
  for (const Home& home : {kHomes[0], kHomes[1]})
    EXPECT_TRUE(loss_of(at(home)).equal(on_host)) << home.name;
}

// --- what cannot be

std::string refusal(const Options& options, const Work& work, int ranks) {
  try {
    train(ranks, options, work);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST_F(StateStandinTest, WhatCannotBeIsRefused) {
  using ::testing::HasSubstr;
  Options there = at(kHomes[1]);
  there.optimizer.kind = Optimizer::kSgd;
  EXPECT_THAT(refusal(there, work, 1), HasSubstr("offload none belongs to adamw"));
  there = at(kHomes[2]);
  there.optimizer.kind = Optimizer::kLion;
  EXPECT_THAT(refusal(there, work, 1),
              HasSubstr("GPUs update with that alone, not with lion"));
  there = at(kHomes[2]);
  there.device_state_fraction = 1.5;
  EXPECT_THAT(refusal(there, work, 1), HasSubstr("device_state_fraction is 1.5"));
  there = at(kHomes[0]);
  there.device = DeviceChoice::kCpu;
  EXPECT_THAT(refusal(there, work, 1), HasSubstr("offload optimizer is for a GPU"));
}

}  // namespace
}  // namespace zero::testing::state_standin_test
