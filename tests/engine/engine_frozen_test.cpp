// Parameters that freeze and thaw while an engine lives, beside torch's AdamW with
// requires_grad switched at the same steps.
#include <chrono>
#include <filesystem>
#include <thread>

#include "engine/device/host_device.h"
#include "tests/engine/unit_contract.h"
#include "zero/save_load.h"

namespace zero::testing::engine_frozen_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl() {
    up = register_module("up", nn::Linear(4, 6));
    down = register_module("down", nn::Linear(6, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return down(torch::tanh(up(x))); }
  nn::Linear up{nullptr}, down{nullptr};
};

struct NetImpl : nn::Module {
  NetImpl() {
    for (auto& block : blocks)
      block =
          register_module("b" + std::to_string(&block - blocks), Unit<BlockImpl>::make());
    head = register_module("head", nn::Linear(4, 2));
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(values(parameter.sizes().vec(), 0.3, 9)) / 2);
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(blocks[1](blocks[0](x))).pow(2).sum();
  }
  Unit<BlockImpl> blocks[2];
  nn::Linear head{nullptr};
};

// Before which step what is frozen or thawed: a unit below all that is trained, and a
// part of a unit in the middle, which rests for a while.
struct Change {
  int step;
  std::string pattern;
  bool frozen;
};
const std::vector<Change> kChanges = {
    {3, "b0.*", false}, {5, "b1.up.*", true}, {7, "b1.up.*", false}};
constexpr int kSteps = 9, kRows = 2, kPasses = 4;

at::Tensor rows_of(int step, int pass) {
  return values({kRows, 4}, -1 - 0.2 * step, 1 + 0.3 * pass);
}

Options some_options(int ranks) {
  Options options;
  options.adam_threads = 1;
  options.device = DeviceChoice::kCpu;
  options.schedule.lr = 0.02;
  options.optimizer.weight_decay = 0.3;
  options.clip = 0.5;
  options.micro_batches_per_rank = kPasses / ranks;
  options.thaws = {"b0.*"};
  return options;
}

Trained plain() {
  NetImpl net;
  std::vector<at::Tensor> decayed, others;
  for (const at::Tensor& parameter : net.parameters())
    (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (auto* list : {&decayed, &others}) {
    const double decay = list == &decayed ? 0.3 : 0;
    auto of_list = std::make_unique<torch::optim::AdamWOptions>(0.02);
    of_list->weight_decay(decay).betas({0.9, 0.95});
    groups.emplace_back(*list, std::move(of_list));
  }
  torch::optim::AdamW optimizer(groups);
  const auto set = [&](const std::string& start, bool frozen) {
    for (auto& item : net.named_parameters())
      if (item.key().starts_with(start)) item.value().set_requires_grad(!frozen);
  };
  set("b0.", true);
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    for (const Change& change : kChanges)
      if (change.step == step)
        set(change.pattern.substr(0, change.pattern.size() - 1), change.frozen);
    optimizer.zero_grad();
    at::Tensor loss = at::zeros({});
    for (int pass = 0; pass < kPasses; ++pass)
      loss = loss + net.forward(rows_of(step, pass)) / (kRows * kPasses);
    loss.backward();
    run.losses.push_back(loss.item<double>());
    std::vector<at::Tensor> trained;
    for (const at::Tensor& parameter : net.parameters())
      if (parameter.grad().defined()) trained.push_back(parameter);
    run.norms.push_back(nn::utils::clip_grad_norm_(trained, 0.5));
    optimizer.step();
  }
  for (const auto& item : net.named_parameters()) {
    const at::Tensor flat = item.value().detach().contiguous();
    run.params[item.key()] = {flat.data_ptr<float>(),
                              flat.data_ptr<float>() + flat.numel()};
  }
  return run;
}

void change_at(Engine& engine, int step) {
  for (const Change& change : kChanges)
    if (change.step == step) engine.set_frozen(change.pattern, change.frozen);
}

void train_step(Engine& engine, std::shared_ptr<NetImpl>& net, int step, Trained& run) {
  const auto passes = static_cast<int>(engine.options().micro_batches_per_rank);
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t batch = engine.mesh().micro_batch(engine.rank(), pass, passes);
    const at::Tensor rows = rows_of(step, static_cast<int>(batch));
    engine.backward(engine.forward(net, rows), kRows);
  }
  const StepReport report = engine.step();
  if (engine.rank() != 0) return;
  run.losses.push_back(report.loss);
  run.norms.push_back(report.grad_norm);
}

// All steps; with `folder` saved behind step `saved`, and gone on with by another engine.
Trained train(int ranks, const Options& options, const std::string& folder = "",
              int saved = 0) {
  Trained run;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    auto net = std::make_shared<NetImpl>();
    auto engine = std::make_unique<Engine>(net, options, std::move(comm));
    expect_planned_bytes(*engine);
    for (int step = 0; step < kSteps; ++step) {
      change_at(*engine, step);
      train_step(*engine, net, step, run);
      if (folder.empty() || step + 1 != saved) continue;
      const std::string path =
          save_checkpoint(*engine, folder, {.step = engine->num_steps()});
      net = std::make_shared<NetImpl>();
      engine = std::make_unique<Engine>(net, options);
      load_checkpoint(*engine, path);
      for (int before = 0; before <= step; ++before) change_at(*engine, before);
    }
    collect_shards(*engine, run);
  });
  return run;
}

TEST(EngineFrozen, FreezesAndThawsAsTorchDoes) {
  const Trained expected = plain();
  for (const int ranks : {1, 2, 4}) {
    for (const bool deterministic : {false, true}) {
      for (const Unused unused : {Unused::kZeros, Unused::kLeave}) {
        SCOPED_TRACE(::testing::Message() << ranks << deterministic);
        Options options = some_options(ranks);
        options.deterministic = deterministic;
        options.unused = unused;
        expect_close(train(ranks, options), expected);
      }
    }
  }
}

// The last step's update reads gradients that a parameter which rests has no more.
TEST(EngineFrozen, WhatFreezesGetsTheUpdatesOfBefore) {
  const auto values_after = [](bool overlap) {
    Options options = some_options(1);
    options.overlap_updates = overlap;
    auto net = std::make_shared<NetImpl>();
    Engine engine(net, options);
    Trained run;
    set_delays({{"update", 50}});
    train_step(engine, net, 0, run);
    engine.set_frozen("b1.*", true);
    set_delays({});
    collect_shards(engine, run);
    return run.params;
  };
  EXPECT_EQ(values_after(true), values_after(false));
}

TEST(EngineFrozen, GoesOnFromACheckpointOfAnyPhase) {
  const Options options = some_options(1);
  const Trained whole = train(1, options);
  for (const int saved : {2, 3, 4, 6, 8}) {
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) / "engine_frozen";
    std::filesystem::remove_all(folder);
    const Trained resumed = train(1, options, folder, saved);
    expect_same(resumed, whole);
    std::filesystem::remove_all(folder);
  }
}

TEST(EngineFrozen, RestsWithoutGradientsAndUpdates) {
  auto net = std::make_shared<NetImpl>();
  Engine engine(net, some_options(1));
  Trained run;
  EXPECT_TRUE(engine.is_frozen("b0.up.weight"));
  EXPECT_FALSE(engine.is_frozen("b1.up.weight"));
  EXPECT_FALSE(net->blocks[0]->up->weight.requires_grad());
  const std::vector<float> before = engine.local_shard("b0.up.weight").master.read_all();
  train_step(engine, net, 0, run);
  const int64_t resting = engine.num_reductions();
  EXPECT_EQ(engine.local_shard("b0.up.weight").master.read_all(), before);
  engine.set_frozen("b0.*", false);
  EXPECT_EQ(engine.optimizer_start("b0.up.weight"), 1);
  train_step(engine, net, 1, run);
  EXPECT_GT(engine.num_reductions() - resting, resting);
  EXPECT_NE(engine.local_shard("b0.up.weight").master.read_all(), before);
  engine.set_frozen("b0.*", true);
  for (int pass = 0; pass < kPasses; ++pass)
    engine.backward(engine.forward(net, rows_of(2, pass)), kRows);
  EXPECT_EQ(engine.full_gradient("b0.up.weight").abs().max().item<float>(), 0);
  EXPECT_GT(engine.full_gradient("b1.up.weight").abs().max().item<float>(), 0);
}

TEST(EngineFrozen, RefusesWhatItCannotDo) {
  auto net = std::make_shared<NetImpl>();
  Options options = some_options(1);
  options.groups = {{"head.*", 1, {}, /*frozen=*/true}};
  Engine engine(net, options);
  EXPECT_THAT(error_of([&] { engine.set_frozen("b7.*", false); }),
              HasSubstr("'b7.*' matches no parameter"));
  EXPECT_THAT(error_of([&] { engine.set_frozen("*", false); }),
              AllOf(HasSubstr("frozen when the engine was made"),
                    HasSubstr("where: head.weight"), HasSubstr("Options::thaws")));
  EXPECT_TRUE(engine.is_frozen("b0.up.weight")) << "nothing has changed";
  const at::Tensor loss = engine.forward(net, rows_of(0, 0));
  engine.set_frozen("b0.*", false);
  EXPECT_THAT(error_of([&] { engine.backward(loss, kRows); }), HasSubstr("changed"));
  engine.discard_gradients();
  engine.backward(engine.forward(net, rows_of(0, 0)), kRows);
  EXPECT_THAT(error_of([&] { engine.set_frozen("b0.*", true); }),
              HasSubstr("in the middle of a step"));
  engine.discard_gradients();
  engine.set_frozen("b0.*", true);
  options.thaws = {"b0.*", "nothing.*"};
  EXPECT_THAT(
      error_of([&] { Engine(std::make_shared<NetImpl>(), options); }),
      AllOf(HasSubstr("'nothing.*' matches no parameter"), HasSubstr("--unfreeze-at")));
}

TEST(EngineFrozen, RanksThatSayOtherThingsAreTold) {
  for (const bool same_pattern : {true, false}) {
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      auto net = std::make_shared<NetImpl>();
      Engine engine(net, some_options(2), std::move(comm));
      const bool is_first = engine.rank() == 0;
      const std::string error = error_of(
          [&] {
            engine.set_frozen(is_first || same_pattern ? "b1.*" : "head.*",
                              is_first || !same_pattern);
          },
          ExitCode::kDiverged);
      EXPECT_THAT(error, HasSubstr("set_frozen()"));
    });
  }
}

// ---- one copy for the ranks of a host

struct SlowImpl : nn::Module {
  SlowImpl() { w = register_parameter("w", values({1024}, 1, 1)); }
  at::Tensor forward(const at::Tensor& x) {
    std::this_thread::sleep_for(delay);
    if (is_spoiled) w.data().mul_(2);
    return x * w.sum();
  }
  at::Tensor w;
  std::chrono::milliseconds delay{0};
  bool is_spoiled = false;
};

struct SlowNetImpl : nn::Module {
  SlowNetImpl() {
    unit = register_module("unit", Unit<SlowImpl>::make());
    scale = register_parameter("scale", torch::ones({1}));
  }
  at::Tensor forward(const at::Tensor& x) { return (unit(x) * scale).sum(); }
  Unit<SlowImpl> unit{nullptr};
  at::Tensor scale;
};

// Of two ranks; for inference they gather nothing at all.
template <class Play>
void on_two_ranks(bool inference, const Play& play) {
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    Options options = some_options(2);
    options.groups = {{"unit.*", 1, {}, /*frozen=*/true}};
    options.thaws.clear();
    options.inference = inference;
    auto net = std::make_shared<SlowNetImpl>();
    Engine engine(net, options, std::move(comm));
    play(engine, net);
  });
}

float output_of(Engine& engine, const std::shared_ptr<SlowNetImpl>& net) {
  const torch::NoGradGuard no_grad;
  return engine.forward(net, torch::ones({1})).item<float>();
}

TEST(SharedFrozenWeights, AreGatheredByNobody) {
  on_two_ranks(/*inference=*/false, [](Engine& engine, auto& net) {
    for (int pass = 0; pass < 2; ++pass)
      engine.backward(engine.forward(net, torch::ones({1})), 1);
    EXPECT_EQ(engine.num_gathers(), 1) << "of the root";
  });
}

// While one rank still computes with the old ones.
TEST(SharedFrozenWeights, AreSetWhenNoRankReadsThem) {
  on_two_ranks(/*inference=*/true, [](Engine& engine, auto& net) {
    EXPECT_EQ(output_of(engine, net), 1024);
    if (engine.rank() == 1) net->unit->delay = std::chrono::milliseconds(50);
    EXPECT_EQ(output_of(engine, net), 1024);
    engine.set_full_parameter("unit.w", torch::full({1024}, 2.0));
    EXPECT_EQ(output_of(engine, net), 2048);
  });
}

// The first rank is at its next forward when the second one has not written yet.
TEST(SharedFrozenWeights, AreReadWhenAllRanksHaveWritten) {
  on_two_ranks(/*inference=*/true, [](Engine& engine, auto& net) {
    if (engine.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    engine.local_shard("unit.w").master.write(0, std::vector<float>(512, 3));
    engine.masters_changed();
    EXPECT_EQ(output_of(engine, net), 3072);
  });
}

// Which nobody notices once values were compared; until somebody sets some weights.
TEST(SharedFrozenWeights, AreReadAnewWhereAForwardHasWrittenOverThem) {
  on_two_ranks(/*inference=*/true, [](Engine& engine, auto& net) {
    EXPECT_EQ(output_of(engine, net), 1024);
    net->unit->is_spoiled = true;
    EXPECT_EQ(output_of(engine, net), 2048);
    net->unit->is_spoiled = false;
    engine.set_full_parameter("scale", torch::full({1}, 3.0));
    EXPECT_EQ(output_of(engine, net), 3072);
  });
}

TEST(SharedFrozenWeights, AreWhatTheyWereBehindAForwardThatChangedThem) {
  on_two_ranks(/*inference=*/false, [](Engine& engine, auto& net) {
    net->unit->is_spoiled = true;
    EXPECT_THAT(error_of([&] { output_of(engine, net); }),
                AllOf(HasSubstr("changes a parameter in place"), HasSubstr("unit.w")));
    net->unit->is_spoiled = false;
    EXPECT_EQ(output_of(engine, net), 1024);
  });
}

}  // namespace
}  // namespace zero::testing::engine_frozen_test
