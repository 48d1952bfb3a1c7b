// Steps whose bytes are counted, against the plan of them.
#pragma once
#include <gtest/gtest.h>

#include "tests/engine/training.h"
#include "zero/unit.h"

namespace zero::testing {

// A unit of as many elements as it is told.
struct SizedImpl : torch::nn::Module {
  explicit SizedImpl(int64_t numel) { w = register_parameter("w", torch::ones({numel})); }
  at::Tensor forward(const at::Tensor& x) { return x * w.slice(0, 0, 64) + w.mean(); }
  at::Tensor w;
};

// A root of 100 elements, and units of these sizes.
struct SizesImpl : torch::nn::Module {
  explicit SizesImpl(const std::vector<int64_t>& numels) {
    embed = register_parameter("embed", torch::ones({100}));
    for (const int64_t numel : numels) units->push_back(Unit<SizedImpl>(numel));
    register_module("units", units);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x * embed.mean();
    for (auto& unit : *units) y = unit.value()(y);
    return y.sum() * 1e-3;
  }
  at::Tensor embed;
  UnitList<SizedImpl> units{std::make_shared<UnitListImpl<SizedImpl>>()};
};

// Train for a few steps of Options::micro_batches_per_rank passes, and expect that each
// rank moved in each but the first what the plan says.
template <class Make, class... Args>
void expect_planned_traffic(int ranks, const Options& options, const Make& make,
                            const Args&... args) {
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    auto model = make();
    Engine engine(model, options, std::move(comm));
    const Traffic planned = plan_traffic(*make(), options, ranks);
    for (int step = 0; step < 3; ++step) {
      const Traffic before = engine.traffic();
      for (int64_t p = 0; p < options.micro_batches_per_rank; ++p)
        engine.backward(engine.forward(model, args...), 32);
      engine.step();
      if (step == 0) continue;
      const Traffic moved = engine.traffic() - before;
      EXPECT_EQ(moved.to_device, planned.to_device);
      EXPECT_EQ(moved.from_device, planned.from_device);
      EXPECT_EQ(moved.gathered, planned.gathered);
      EXPECT_EQ(moved.reduced, planned.reduced);
      EXPECT_EQ(moved.gathered > 0, ranks > 1);
      EXPECT_EQ(moved.to_device > 0,
                engine.uses_gpu() && options.offload != Offload::kNone);
    }
  });
}

// The same for models and options of all kinds; `base` fits all.
inline void expect_planned_traffic_throughout(int ranks, const Options& base) {
  const auto sizes = [] {
    return std::make_shared<SizesImpl>(
        std::vector<int64_t>{300, 100, 20'000, 100, 100, 100, 300, 100});
  };
  const auto expect_planned = [&](const std::string& what, auto change) {
    SCOPED_TRACE(what + " on " + std::to_string(ranks));
    Options options = base;
    change(options);
    expect_planned_traffic(ranks, options, sizes, torch::ones({64}));
  };
  expect_planned("as they are", [](Options&) {});
  expect_planned("in bf16", [](Options& options) {
    options.dtype = options.reduce_dtype = options.grad_dtype = DType::kBf16;
  });
  expect_planned("in bf16, reduced in fp32", [](Options& options) {
    options.dtype = DType::kBf16;
    options.micro_batches_per_rank = 3;
  });
  for (const int prefetch : {0, 2, 3}) {
    expect_planned("prefetching " + std::to_string(prefetch), [&](Options& options) {
      options.prefetch = prefetch;
      options.micro_batches_per_rank = 2;
    });
  }
  for (const DType kept : {DType::kBf16, DType::kInt8}) {
    expect_planned("beside decoded weights", [&](Options& options) {
      options.groups = {{"units.2.*", 1, {}, /*frozen=*/true}};
      options.frozen_dtype = kept;
    });
  }
  expect_planned("gathered once", [](Options& options) {
    options.reshard_after_forward = false;
    options.micro_batches_per_rank = 2;
  });
  expect_planned("deterministic", [](Options& options) {
    options.deterministic = true;
    options.micro_batches_per_rank = 2;
    options.recompute = Recompute::kNone;
  });
  for (const Offload offload : {Offload::kOptimizer, Offload::kNone, Offload::kAll}) {
    if (base.device != DeviceChoice::kCuda) break;
    expect_planned("with shards elsewhere", [&](Options& options) {
      options.offload = offload;
      options.grad_sums = offload == Offload::kNone ? GradSums::kHost : GradSums::kDevice;
      options.device_state_fraction = offload == Offload::kAll ? 0.97 : 0;
      options.dtype = DType::kBf16;
      options.micro_batches_per_rank = 2;
    });
  }
  // A whole model, too, whose rows units may take in parts.
  const Work work{.rows = 4};
  const auto [tokens, targets] = batch_of(work, 257, 0, 0);
  const auto gpt2 = [] {
    Gpt2Config config = small_gpt2();
    config.n_layer = 5;
    return std::make_shared<Gpt2Impl>(config);
  };
  for (const Accumulate accumulate : {Accumulate::kModel, Accumulate::kUnit}) {
    Options options = base;
    options.accumulate = accumulate;
    options.micro_batch = 2;
    options.dtype = DType::kBf16;
    expect_planned_traffic(ranks, options, gpt2, tokens, targets);
  }
}

}  // namespace zero::testing
