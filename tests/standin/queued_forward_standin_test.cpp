// A forward whose result nobody has read is still under way on a GPU: it computes with
// the weights that it was called with, whoever changes them meanwhile.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/engine/small_models.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/engine.h"

namespace zero::testing::queued_forward_standin_test {
namespace {

constexpr int64_t kWidth = 4096;

// In an evaluation all is queued: the stand-in's host waits for no operator in place.
struct LayerImpl : torch::nn::Module {
  LayerImpl() { w = register_parameter("w", values({kWidth}, -0.3, 0.2)); }
  at::Tensor forward(const at::Tensor& x) {
    return torch::GradMode::is_enabled() ? x + w : x.add_(w);
  }
  at::Tensor w;
};

struct StackImpl : torch::nn::Module {
  StackImpl() {
    for (int i = 0; i < 6; ++i) units->push_back(Unit<LayerImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x);
    return torch::GradMode::is_enabled() ? x.pow(2).sum() : x;
  }
  UnitList<LayerImpl> units{std::make_shared<UnitListImpl<LayerImpl>>()};
};

struct Home {
  const char* name;
  Offload offload;
  MasterStorage master = MasterStorage::kFp32;
};
constexpr Home kHomes[] = {{"host", Offload::kAll},
                           {"halves on the host", Offload::kAll, MasterStorage::kSplit},
                           {"weights on the GPU", Offload::kOptimizer},
                           {"all on the GPU", Offload::kNone}};

class QueuedForward : public ::testing::Test {
 protected:
  // What an evaluation gives, read at once, and where `change` comes before it is read.
  void expect_same_behind(const std::function<void(Engine&)>& before,
                          const std::function<void(Engine&)>& change) {
    for (const Home& home : kHomes) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(home.name + std::string(", seed ") + std::to_string(seed));
        of_standin<void()>("standin_reset")();
        Options options;
        options.device = DeviceChoice::kCuda;
        options.offload = home.offload;
        options.master = home.master;
        if (home.master == MasterStorage::kSplit) options.dtype = DType::kBf16;
        options.prefetch = 1;
        options.adam_threads = 1;
        options.chaos_seed = seed;
        model = std::make_shared<StackImpl>();
        Engine engine(model, options);
        before(engine);
        const at::Tensor expected = evaluate(engine).cpu();
        const at::Tensor queued = evaluate(engine);
        change(engine);
        EXPECT_TRUE(queued.cpu().equal(expected));
        EXPECT_FALSE(evaluate(engine).cpu().equal(expected)) << "nothing has changed";
      }
    }
  }

  at::Tensor evaluate(Engine& engine) {
    const torch::NoGradGuard no_grad;
    return engine.forward(model, values({kWidth}, -1, 1));
  }
  void run_backward(Engine& engine) {
    engine.backward(engine.forward(model, values({kWidth}, -1, 1)), kWidth);
  }

  std::shared_ptr<StackImpl> model;
};

const auto kNothing = [](Engine&) {};

TEST_F(QueuedForward, AParameterIsSetBehindIt) {
  expect_same_behind(kNothing, [](Engine& engine) {
    engine.set_full_parameter("units.5.w", torch::full({kWidth}, 100.0));
  });
}

TEST_F(QueuedForward, ShardsAreWrittenBehindIt) {
  expect_same_behind(kNothing, [](Engine& engine) {
    for (const ShardView& view : engine.shards())
      view.master.write(0, std::vector<float>(view.master.size(), 100.0f));
    engine.masters_changed();
  });
}

TEST_F(QueuedForward, AStepWhoseGradientsWereFinishedUpdatesBehindIt) {
  expect_same_behind(
      [&](Engine& engine) {
        run_backward(engine);
        engine.full_gradient("units.0.w");
      },
      [](Engine& engine) { engine.step(); });
}

}  // namespace
}  // namespace zero::testing::queued_forward_standin_test
