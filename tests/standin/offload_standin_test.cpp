// Inputs of units that wait for their backward in the host's memory: the same bits as
// those that wait on the device, whatever the order of calls; and what is copied, held
// and given back. The GPU is the stand-in: memory that was let go too early is NaN for
// whoever still reads it.
#include <functional>
#include <utility>

#include "tests/engine/small_models.h"
#include "tests/standin/gpu_of_tests.h"

namespace zero::testing::offload_standin_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 64, kWidth = 32, kInputBytes = kRows * kWidth * 4;

struct LayerImpl : torch::nn::Module {
  LayerImpl() { w = register_parameter("w", values({kWidth, kWidth}, -0.3, 0.2)); }
  at::Tensor forward(const at::Tensor& x) {
    return x + torch::dropout(torch::matmul(x, w).sin(), 0.1, is_training());
  }
  at::Tensor w;
};

constexpr int kNumLayers = 6;

struct StackImpl : torch::nn::Module {
  StackImpl() {
    for (int i = 0; i < kNumLayers; ++i) units->push_back(Unit<LayerImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x);
    return x.pow(2).sum();
  }
  UnitList<LayerImpl> units{std::make_shared<UnitListImpl<LayerImpl>>()};
};

at::Tensor batch(int number = 0) {
  return values({kRows, kWidth}, -1 - number, 1 + 0.5 * number);
}

// An engine on the GPU, its model, and what comes out of it.
template <class Model>
struct Trainee {
  explicit Trainee(Options given, std::unique_ptr<Ranks> ranks = nullptr)
      : model(std::make_shared<Model>()),
        engine(std::make_unique<Engine>(model, given, std::move(ranks))) {}

  at::Tensor forward(int number = 0) { return engine->forward(model, batch(number)); }
  std::vector<at::Tensor> gradients() {
    std::vector<at::Tensor> all;
    for (const auto& item : model->named_parameters())
      all.push_back(engine->full_gradient(item.key()));
    return all;
  }
  OffloadedBytes bytes() const { return engine->offloaded_activations(); }

  std::shared_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

class OffloadStandin : public ::testing::Test {
 protected:
  OffloadStandin() {
    of_standin<void()>("standin_reset")();
    options.adam_threads = 1;
    options.device = DeviceChoice::kCuda;
    options.schedule.lr = 0.1;
    options.offload_activations = true;
    options.offload_min_bytes = kInputBytes;
  }

  // `story(run)` gives the same tensors with inputs in the host's memory as with inputs
  // on the device, calm or in chaos.
  template <class Model = StackImpl, class Story>
  void expect_same_as_on_the_device(Story story) {
    Options on_device = options;
    on_device.offload_activations = false;
    Trainee<Model> reference(on_device);
    const std::vector<at::Tensor> expected = story(reference);
    for (const uint64_t chaos : {0, 1, 2, 3}) {
      options.chaos_seed = chaos;
      Trainee<Model> run(options);
      expect_equal(story(run), expected);
      EXPECT_GT(run.bytes().out, 0);
    }
    options.chaos_seed = 0;
  }

  Options options;
};

TEST_F(OffloadStandin, TrainingHasTheSameBits) {
  for (const int64_t every : {1, 2, 3}) {
    options.recompute.every = every;
    expect_same_as_on_the_device([](auto& run) {
      std::vector<at::Tensor> seen;
      for (int step = 0; step < 3; ++step) {
        for (int pass = 0; pass < 2; ++pass) {
          const at::Tensor loss = run.forward(2 * step + pass);
          run.engine->backward(loss, kRows);
          seen.push_back(loss.cpu());
        }
        run.engine->step();
      }
      for (const auto& item : run.model->named_parameters())
        seen.push_back(run.engine->full_parameter(item.key()));
      return seen;
    });
  }
}

// What the last calls of a forward were given is on the device still.
TEST_F(OffloadStandin, EachInputGoesOnceAndComesOnce) {
  Trainee<StackImpl> run(options);
  for (int pass = 1; pass <= 3; ++pass) {
    const at::Tensor loss = run.forward();
    EXPECT_EQ(run.bytes().out, pass * kNumLayers * kInputBytes);
    run.engine->backward(loss, kRows);
    EXPECT_EQ(run.bytes().back, pass * (kNumLayers - kNumResidentCalls) * kInputBytes);
    EXPECT_EQ(run.bytes().pinned, kNumLayers * kInputBytes) << "the pool does not grow";
  }
}

struct AsksImpl : LayerImpl {
  at::Tensor forward(const at::Tensor& x) {
    if (asks) asks();
    return LayerImpl::forward(x);
  }
  static inline std::function<void()> asks;
};
struct AskingImpl : torch::nn::Module {
  AskingImpl() {
    for (int i = 0; i < kNumLayers; ++i) units->push_back(Unit<AsksImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x);
    return x.pow(2).sum();
  }
  UnitList<AsksImpl> units{std::make_shared<UnitListImpl<AsksImpl>>()};
};

TEST_F(OffloadStandin, InputsComeBackOneUnitAhead) {
  Trainee<AskingImpl> run(options);
  const at::Tensor loss = run.forward();
  std::vector<int64_t> num_back;
  AsksImpl::asks = [&] { num_back.push_back(run.bytes().back / kInputBytes); };
  run.engine->backward(loss, kRows);
  AsksImpl::asks = nullptr;
  EXPECT_THAT(num_back, ::testing::ElementsAre(0, 1, 2, 3, 4, 4));
}

TEST_F(OffloadStandin, WhatGetsNoBackwardAnyMoreDoesNotComeBack) {
  Trainee<StackImpl> run(options);
  run.engine->backward(run.forward(), kRows);
  const at::Tensor of_older_weights = run.forward();
  run.engine->step();
  run.engine->backward(run.forward(), kRows);
  EXPECT_EQ(run.bytes().back, 2 * (kNumLayers - kNumResidentCalls) * kInputBytes);
}

TEST_F(OffloadStandin, OnlyInputsOfRecomputedUnitsGo) {
  options.recompute.every = 4;  // the first and the fifth
  Trainee<StackImpl> run(options);
  run.engine->backward(run.forward(), kRows);
  EXPECT_EQ(run.bytes().out, 2 * kInputBytes);
  EXPECT_EQ(run.bytes().back, 0);
}

TEST_F(OffloadStandin, SmallInputsStay) {
  options.offload_min_bytes = kInputBytes + 1;
  Trainee<StackImpl> run(options);
  run.engine->backward(run.forward(), kRows);
  EXPECT_EQ(run.bytes().out, 0);
  EXPECT_EQ(run.bytes().pinned, 0);
}

TEST_F(OffloadStandin, WithoutGradientsNothingGoes) {
  Trainee<StackImpl> run(options);
  const torch::NoGradGuard no_grad;
  run.forward();
  EXPECT_EQ(run.bytes().out, 0);
}

TEST_F(OffloadStandin, WhatNeedsNoBackwardStays) {
  options.groups = {{"*", 1, {}, /*frozen=*/true}};
  Trainee<StackImpl> run(options);
  run.forward();
  EXPECT_EQ(run.bytes().out, 0);
}

TEST_F(OffloadStandin, SeveralForwardsBeforeTheirBackwardsInAnyOrder) {
  expect_same_as_on_the_device([](auto& run) {
    for (const std::vector<int>& order :
         std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
      std::vector<at::Tensor> losses;
      for (int i = 0; i < 3; ++i) losses.push_back(run.forward(i));
      for (const int i : order) run.engine->backward(losses[i], kRows);
    }
    return run.gradients();
  });
}

TEST_F(OffloadStandin, AGraphMayBeKeptForASecondBackward) {
  expect_same_as_on_the_device([](auto& run) {
    at::Tensor x = batch().to(run.engine->device()).requires_grad_();
    std::vector<at::Tensor> seen;
    const at::Tensor loss = run.engine->forward(run.model, x);
    for (const bool keeps : {true, true, false})
      seen.push_back(torch::autograd::grad({loss}, {x}, {}, keeps)[0].cpu());
    return seen;
  });
}

// The memory of graphs that never get a backward is used again.
TEST_F(OffloadStandin, DroppedGraphsGiveTheirMemoryBack) {
  expect_same_as_on_the_device([](auto& run) {
    for (int i = 0; i < 4; ++i) run.forward(i);
    const at::Tensor loss = run.forward(5);
    run.engine->backward(loss, kRows);
    EXPECT_LE(run.bytes().pinned, 2 * kNumLayers * kInputBytes);
    return run.gradients();
  });
}

TEST_F(OffloadStandin, AnExceptionInBetweenLeavesNothingBehind) {
  struct ThrowsImpl : StackImpl {
    at::Tensor forward(const at::Tensor& x, bool throws = false) {
      at::Tensor y = x;
      for (auto& unit : *units) y = unit.value()(y);
      if (throws) throw std::runtime_error("in between");
      return y.pow(2).sum();
    }
  };
  expect_same_as_on_the_device<ThrowsImpl>([](auto& run) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(run.engine->forward(run.model, batch(), true), std::runtime_error);
      run.engine->backward(run.forward(i), kRows);
    }
    EXPECT_LE(run.bytes().pinned, kNumLayers * kInputBytes);
    return run.gradients();
  });
}

// A mask of integers that all calls share, one tensor twice, a view that is not dense,
// and a parameter.
struct ManyImpl : LayerImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& same,
                     const at::Tensor& columns, const at::Tensor& table) {
    return x * mask.to(at::kFloat) + same * columns.sum(1, true) + torch::matmul(x, w) +
           table;
  }
};
struct SharesImpl : torch::nn::Module {
  SharesImpl() {
    table = register_parameter("table", values({kRows, kWidth}, -0.1, 0.1));
    for (int i = 0; i < 4; ++i) units->push_back(Unit<ManyImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    const at::Tensor mask = x.gt(0).to(at::kLong);
    for (auto& unit : *units) {
      x = unit.value()(x, mask, x, x.narrow(1, 0, kWidth / 2), table);
      x = x * 0.1;
    }
    return x.pow(2).sum();
  }
  at::Tensor table;
  UnitList<ManyImpl> units{std::make_shared<UnitListImpl<ManyImpl>>()};
};

TEST_F(OffloadStandin, SharedTensorsGoOnceViewsAndParametersStay) {
  expect_same_as_on_the_device<SharesImpl>([](auto& run) {
    run.engine->backward(run.forward(), kRows);  // learns that nothing is changed in
                                                 // place
    const OffloadedBytes before = run.bytes();
    run.engine->backward(run.forward(1), kRows);
    if (before.out > 0) {
      EXPECT_EQ(run.bytes().out - before.out, 4 * kInputBytes + 2 * kInputBytes);
      // Of the first two calls: the mask is there still, because the last two have it.
      EXPECT_EQ(run.bytes().back - before.back, 2 * kInputBytes);
    }
    return run.gradients();
  });
}

// Changes its argument, so that recomputation starts from a copy.
struct ChangesImpl : LayerImpl {
  at::Tensor forward(at::Tensor x) { return torch::matmul(x.mul_(1.5), w).sin(); }
};
struct ChangingImpl : torch::nn::Module {
  ChangingImpl() {
    for (int i = 0; i < 4; ++i) units->push_back(Unit<ChangesImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x + 1);
    return x.pow(2).sum();
  }
  UnitList<ChangesImpl> units{std::make_shared<UnitListImpl<ChangesImpl>>()};
};

TEST_F(OffloadStandin, AnArgumentThatIsChangedInPlaceHasItsValueOfTheCall) {
  expect_same_as_on_the_device<ChangingImpl>([](auto& run) {
    for (int i = 0; i < 2; ++i) run.engine->backward(run.forward(i), kRows);
    return run.gradients();
  });
}

TEST_F(OffloadStandin, AChangeAfterTheCallIsRefusedAsEver) {
  struct LaterImpl : StackImpl {
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor y = (*units)["0"](x);
      const at::Tensor loss = (*units)["1"](y).pow(2).sum();
      const torch::NoGradGuard no_grad;
      y.mul_(2);
      return loss;
    }
  };
  Trainee<LaterImpl> run(options);
  run.forward();  // from a copy: it may have changed its argument itself
  const at::Tensor loss = run.forward();
  EXPECT_GT(run.bytes().out, 0);
  EXPECT_THAT(error_of([&] { run.engine->backward(loss, 1); }),
              HasSubstr("was changed in place between its forward and its backward"));
}

TEST_F(OffloadStandin, InMicroBatchesOfAUnit) {
  options.accumulate = Accumulate::kUnit;
  options.micro_batch = kRows / 4;
  expect_same_as_on_the_device([](auto& run) {
    for (int i = 0; i < 2; ++i) run.engine->backward(run.forward(i), kRows);
    return run.gradients();
  });
}

TEST_F(OffloadStandin, InBf16OnSeveralRanks) {
  Work work;
  work.steps = 2;
  Options training = small_options(work);
  training.device = DeviceChoice::kCuda;
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    training.dtype = dtype;
    training.offload_activations = false;
    const Trained on_device = train(2, training, work);
    training.offload_activations = true;
    training.offload_min_bytes = 1;
    training.chaos_seed = 4;
    Hooks hooks;
    hooks.after_step = [](Engine& engine, Gpt2Impl&, int) {
      expect_planned_bytes(engine);  // the pool is beside the plan, as activations are
      EXPECT_GT(engine.offloaded_activations().back, 0);
    };
    expect_same(train(2, training, work, hooks), on_device);
  }
}

// The host queues copies and goes on; what is copied is pinned.
TEST_F(OffloadStandin, TheHostWaitsForNoCopy) {
  std::vector<int> waits, unpinned;
  for (const bool offloads : {false, true}) {
    options.offload_activations = offloads;
    Trainee<StackImpl> run(options);
    run.engine->backward(run.forward(), kRows);  // compares weights, which waits
    // Gradients that arrive are waited for by the thread that adds them, by now.
    run.engine->discard_gradients();
    const int waits_before = ask_standin("standin_num_host_waits"),
              unpinned_before = ask_standin("standin_num_unpinned_copies");
    for (int i = 0; i < 4; ++i) {
      const at::Tensor x = batch(i).to(run.engine->device());
      run.engine->backward(run.engine->forward(run.model, x), kRows);
    }
    run.engine->discard_gradients();
    waits.push_back(ask_standin("standin_num_host_waits") - waits_before);
    unpinned.push_back(ask_standin("standin_num_unpinned_copies") - unpinned_before);
  }
  EXPECT_EQ(waits[0], waits[1]);
  EXPECT_EQ(unpinned[0], unpinned[1]);
}

TEST_F(OffloadStandin, AllIsGivenBackThoughAGraphOutlivesTheEngine) {
  at::Tensor loss;
  {
    Trainee<StackImpl> run(options);
    loss = run.forward();
    EXPECT_GT(ask_standin("standin_num_pinned"), kNumLayers);
  }
  EXPECT_EQ(ask_standin("standin_num_left"), 0);
  EXPECT_THAT(error_of([&] { loss.backward(); }), HasSubstr("the engine of this unit"));
}

// While its first unit runs, weights are there: the call that fails next is the copy's of
// its input.
struct FailsImpl : StackImpl {
  at::Tensor forward(at::Tensor x) {
    bool has_failed = call.empty();
    for (auto& unit : *units) {
      x = unit.value()(x);
      if (std::exchange(has_failed, true)) continue;
      of_standin<void(const char*, int)>(how.c_str())(call.c_str(), 700);
    }
    return x.pow(2).sum();
  }
  std::string how, call;
};

// Whatever fails, and when: an error, in the step at the latest, and all is given back.
TEST_F(OffloadStandin, ACopyThatFailsIsAnError) {
  options.prefetch = kNumLayers;
  for (const char* how : {"standin_fail_next", "standin_fail_when_run"}) {
    for (const char* call : {"cudaMemcpyAsync", "cudaHostRegister"}) {
      if (how == std::string("standin_fail_when_run") &&
          call == std::string("cudaHostRegister"))
        continue;  // it runs at once
      for (const bool in_backward : {false, true}) {
        of_standin<void()>("standin_reset")();
        {
          Trainee<FailsImpl> run(options);
          run.model->how = how;
          run.model->call = in_backward ? "" : call;
          const auto train = [&] {
            const at::Tensor loss = run.forward();
            if (in_backward) of_standin<void(const char*, int)>(how)(call, 700);
            run.engine->backward(loss, kRows);
            run.engine->step();
            run.forward(1);
          };
          // In backward the pool is there already.
          if (in_backward && call == std::string("cudaHostRegister"))
            EXPECT_NO_THROW(train());
          else
            EXPECT_THROW(train(), std::exception) << how << " " << call << in_backward;
        }
        EXPECT_EQ(ask_standin("standin_num_left"), 0) << how << " " << call;
      }
    }
  }
}

TEST_F(OffloadStandin, WithoutRecomputationThereIsNothingToOffload) {
  options.recompute = Recompute::kNone;
  EXPECT_THAT(error_of([&] { Trainee<StackImpl> run(options); }),
              HasSubstr("offload_activations belongs to recompute unit"));
}

}  // namespace
}  // namespace zero::testing::offload_standin_test
