// Memory planned is memory used, none of it grows, and no rank holds a full model.
#include <gtest/gtest.h>

#include "offload/host_arena.h"
#include "tests/engine/training.h"
#include "zero/deferred_init.h"

namespace zero::testing::engine_memory_test {
namespace {

class EngineMemory : public ::testing::Test {
 protected:
  static int64_t planned(const Engine& engine) {
    int64_t bytes = 0;
    for (const MemoryEntry& entry : engine.memory()) bytes += entry.bytes;
    return bytes;
  }
  Work work;
  Options options = small_options(work);
};

TEST_F(EngineMemory, AllocatedBytesEqualThePlanAndDoNotGrow) {
  work.steps = 4;
  for (const int ranks : {1, 2, 3}) {
    for (const bool deterministic : {false, true}) {
      for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
        if (deterministic && ranks == 3) continue;
        options.deterministic = deterministic;
        options.dtype = dtype;
        Hooks hooks;
        hooks.after_step = [&](Engine& engine, Gpt2Impl&, int) {
          EXPECT_EQ(engine.allocated_bytes(), planned(engine)) << ranks << " ranks";
        };
        train(ranks, options, work, hooks);
      }
    }
  }
}

// Units in another order than the module's, called twice, and shared by two places.
struct ScaleImpl : torch::nn::Module {
  explicit ScaleImpl(int64_t size) { w = register_parameter("w", torch::ones({size})); }
  at::Tensor forward(const at::Tensor& x) { return x * w.sum(); }
  at::Tensor w;
};
struct OuterImpl : torch::nn::Module {
  explicit OuterImpl(Unit<ScaleImpl> other) : shared(std::move(other)) {
    register_module("shared", shared);
    w = register_parameter("w", torch::ones({100}));
  }
  at::Tensor forward(const at::Tensor& x) { return shared(x) * w.mean(); }
  Unit<ScaleImpl> shared;
  at::Tensor w;
};
struct TangledImpl : torch::nn::Module {
  TangledImpl() {
    shared = register_module("shared", Unit<ScaleImpl>(300));
    for (const int64_t size : {700, 2000, 50}) units->push_back(Unit<ScaleImpl>(size));
    register_module("units", units);
    outer = register_module("outer", Unit<OuterImpl>(shared));
  }
  at::Tensor forward(at::Tensor x) {
    for (const char* name : {"2", "1", "0", "1", "2"}) x = (*units)[name](x) * 1e-3;
    return shared(outer(x)).sum();
  }
  Unit<ScaleImpl> shared{nullptr};
  Unit<OuterImpl> outer{nullptr};
  UnitList<ScaleImpl> units{std::make_shared<UnitListImpl<ScaleImpl>>()};
};

TEST_F(EngineMemory, ThePlanHoldsForUnitsInAnyOrder) {
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    for (const int prefetch : {0, 1, 5}) {
      Options mine;
      mine.device = DeviceChoice::kCpu;
      mine.adam_threads = 1;
      mine.recompute = recompute;
      mine.prefetch = prefetch;
      on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
        auto model = std::make_shared<TangledImpl>();
        Engine engine(model, mine, std::move(comm));
        double norm = 0;
        for (int step = 0; step < 2; ++step) {
          const at::Tensor one = engine.forward(model, torch::ones({3}));
          const at::Tensor two = engine.forward(model, torch::ones({3}));
          EXPECT_EQ(engine.allocated_bytes(), planned(engine));
          engine.backward(two, 1);
          engine.backward(one, 1);
          EXPECT_EQ(engine.allocated_bytes(), planned(engine));
          // With unchanged weights the gradient is the same.
          const double now = engine.full_gradient("shared.w").abs().sum().item<double>();
          EXPECT_GT(now, 0);
          if (step == 1) {
            EXPECT_EQ(now, norm);
          }
          norm = now;
          engine.discard_gradients();
        }
      });
    }
  }
}

TEST_F(EngineMemory, EverythingIsGivenBack) {
  const int64_t before = live_bytes();
  work.steps = 1;
  train(2, options, work);
  EXPECT_EQ(live_bytes(), before);
}

TEST_F(EngineMemory, FourRanksHoldAQuarterEachAndTheRing) {
  Gpt2Config config = small_gpt2();
  config.n_layer = 12;
  int64_t masters = 0, ring = 0, numel = 0, largest_unit = 0;
  on_ranks(4, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    std::shared_ptr<Gpt2Impl> model;
    {
      const DeferredInit guard;
      model = std::make_shared<Gpt2Impl>(config);
    }
    Options mine = options;
    mine.init = gpt2_init_rules(config);
    int64_t foreseen = 0;
    for (const MemoryEntry& entry : plan(*model, mine, 4)) foreseen += entry.bytes;
    Engine engine(model, mine, std::move(comm));
    EXPECT_EQ(foreseen, planned(engine));
    EXPECT_EQ(engine.allocated_bytes(), planned(engine));
    if (rank != 0) return;
    numel = engine.num_parameters();
    for (const auto& item : model->named_modules()["transformer.h.3"]->named_parameters())
      largest_unit += item.value().numel();
    for (const MemoryEntry& entry : engine.memory()) {
      if (entry.owner == "masters") masters = entry.bytes;
      if (entry.owner == "gather ring") ring = entry.bytes;
    }
  });
  EXPECT_NEAR(static_cast<double>(masters), static_cast<double>(numel) * 4 / 4,
              0.02 * static_cast<double>(numel));
  EXPECT_NEAR(static_cast<double>(ring), 2.0 * 4 * static_cast<double>(largest_unit),
              16384);
}

TEST_F(EngineMemory, ADeferredModelCostsNothingToBuild) {
  Gpt2Config config;  // 124 million parameters
  const DeferredInit guard;
  const auto model = std::make_shared<Gpt2Impl>(config);
  int64_t numel = 0;
  for (const at::Tensor& p : model->parameters()) {
    numel += p.numel();
    EXPECT_TRUE(is_deferred(p));
  }
  EXPECT_GT(numel, 124'000'000);
}

}  // namespace
}  // namespace zero::testing::engine_memory_test
