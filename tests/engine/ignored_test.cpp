// Parameters that an engine leaves whole: their gradients, first values, checkpoints, and
// refusals.
#include <unistd.h>

#include <filesystem>

#include "checkpoint/reader.h"
#include "checkpoint/safetensors_writer.h"
#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::ignored_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
namespace nn = torch::nn;

struct LayerImpl : nn::Module {
  LayerImpl() {
    w = register_parameter("w", torch::randn({8, 8}));
    gain = register_parameter("gain", torch::ones({8}));
  }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(x.matmul(w)) * gain + x; }
  at::Tensor w, gain;
};
struct NetImpl : nn::Module {
  NetImpl() {
    for (int i = 0; i < 2; ++i) layers->push_back(Unit<LayerImpl>::make());
    register_module("layers", layers);
    head = register_module("head", nn::Linear(8, 3));
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : *layers) x = layer.value()(x);
    return head(x).to(at::kFloat).square().sum();
  }
  UnitList<LayerImpl> layers{std::make_shared<UnitListImpl<LayerImpl>>()};
  nn::Linear head = nullptr;
};

const std::vector<std::string> kWhole{"head.weight", "head.bias", "layers.0.gain",
                                      "layers.1.gain"};

std::shared_ptr<NetImpl> filled() {
  const auto net = std::make_shared<NetImpl>();
  const torch::NoGradGuard no_grad;
  double low = -0.3;
  for (at::Tensor param : net->parameters())
    param.copy_(values(param.sizes().vec(), low -= 0.05, 0.4));
  return net;
}
std::shared_ptr<NetImpl> deferred() {
  const DeferredInit guard;
  return std::make_shared<NetImpl>();
}
at::Tensor param_of(const std::shared_ptr<NetImpl>& net, const std::string& fqn) {
  return net->named_parameters()[fqn];
}

// On two ranks these have three and one targets, a power of two together.
at::Tensor input(int rank, int pass = 0) {
  return values({4, 8}, -1 - 0.5 * rank, 1 - 0.25 * pass);
}
int64_t targets(int ranks, int rank) { return ranks == 1 ? 4 : rank == 0 ? 3 : 1; }

class IgnoredTest : public ::testing::Test {
 protected:
  IgnoredTest() {
    sharded.device = DeviceChoice::kCpu;
    sharded.adam_threads = 1;
    sharded.schedule.lr = 0.05;
    whole = sharded;
    whole.ignored = {{"head"}, {"layers.*.gain"}};
  }
  ~IgnoredTest() override { fs::remove_all(run); }

  using Body = std::function<void(Engine&, std::shared_ptr<NetImpl>&)>;
  void each_rank(int ranks, const Options& options, const Body& body,
                 std::shared_ptr<NetImpl> (*make)() = filled) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto net = make();
      Engine engine(net, options, std::move(comm));
      body(engine, net);
    });
  }
  // Of each parameter, from an engine that shards all.
  std::map<std::string, at::Tensor> gradients(int ranks, int passes) {
    std::map<std::string, at::Tensor> all;
    each_rank(ranks, sharded, [&](Engine& engine, auto& net) {
      backward(engine, net, passes);
      for (const std::string& fqn : net->named_parameters().keys()) {
        const at::Tensor gradient = engine.full_gradient(fqn);
        if (engine.rank() == 0) all[fqn] = gradient;
      }
    });
    return all;
  }
  void backward(Engine& engine, std::shared_ptr<NetImpl>& net, int passes) {
    for (int pass = 0; pass < passes; ++pass)
      engine.backward(engine.forward(net, input(engine.rank(), pass)),
                      targets(engine.size(), engine.rank()));
  }
  std::string refused(std::vector<Ignored> ignored) {
    whole.ignored = std::move(ignored);
    return error_of([&] { plan(*std::make_shared<NetImpl>(), whole, 1); });
  }

  Options sharded, whole;
  const std::string run = ::testing::TempDir() + "ignored_" + std::to_string(getpid());
};

TEST_F(IgnoredTest, AveragedGradientsAreThoseOfShardedParameters) {
  for (const int ranks : {1, 2}) {
    for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
      for (const int passes : {1, 2}) {
        sharded.recompute = whole.recompute = recompute;
        const auto expected = gradients(ranks, passes);
        each_rank(ranks, whole, [&](Engine& engine, auto& net) {
          expect_planned_bytes(engine);
          EXPECT_THAT(engine.memory().back().owner, "ignored parameters");
          EXPECT_EQ(engine.memory().back().bytes, 2 * 4 * (3 * 8 + 3 + 2 * 8));
          backward(engine, net, passes);
          for (const char* fqn : {"layers.0.w", "layers.1.w"})
            EXPECT_TRUE(engine.full_gradient(fqn).equal(expected.at(fqn)));
          EXPECT_FALSE(engine.step().skipped);
          for (const std::string& fqn : kWhole) {
            const at::Tensor grad = param_of(net, fqn).grad();
            if (ranks == 1 || passes == 1) {
              EXPECT_TRUE(grad.equal(expected.at(fqn))) << fqn;
            } else {
              expect_near(grad, expected.at(fqn));  // passes add up before ranks do
            }
          }
        });
      }
    }
  }
}

TEST_F(IgnoredTest, SoAreThoseOfBatchesInMicroBatchesAndAnyNominalTargets) {
  sharded.accumulate = whole.accumulate = Accumulate::kUnit;
  sharded.micro_batch = whole.micro_batch = 2;
  const auto expected = gradients(2, 1);
  whole.nominal_targets = 3;
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    backward(engine, net, 1);
    engine.step();
    for (const std::string& fqn : kWhole)
      expect_near(param_of(net, fqn).grad(), expected.at(fqn));
  });
}

TEST_F(IgnoredTest, WhatIsLeftAloneHasTheGradientOfItsRanksLossSums) {
  whole.ignored = {{"head", false}, {"*.gain"}};
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    const auto plain = filled();
    for (const int pass : {0, 1}) plain->forward(input(engine.rank(), pass)).backward();
    backward(engine, net, 2);
    engine.step();
    expect_near(net->head->weight.grad(), plain->head->weight.grad());
    const at::Tensor before = net->head->weight.grad();
    backward(engine, net, 1);
    engine.discard_gradients();
    EXPECT_FALSE(net->layers["0"]->gain.grad().defined());
    EXPECT_TRUE(net->head->weight.grad().defined());
  });
}

// Three steps of SGD, half of it by torch: plain LibTorch's parameters.
TEST_F(IgnoredTest, TheCallersOptimizerTrainsThem) {
  const auto plain = filled();
  torch::optim::SGD all(plain->parameters(), 0.05);
  for (int step = 0; step < 3; ++step) {
    all.zero_grad();
    for (const int rank : {0, 1}) (plain->forward(input(rank)) / 4).backward();
    all.step();
  }
  whole.optimizer = {
      .kind = Optimizer::kSgd, .weight_decay = 0, .momentum = 0, .nesterov = false};
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    std::vector<at::Tensor> own;
    for (const std::string& fqn : kWhole) own.push_back(param_of(net, fqn));
    torch::optim::SGD optimizer(own, 0.05);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      backward(engine, net, 1);
      engine.step();
      optimizer.step();
    }
    for (const std::string& fqn : kWhole)
      expect_near(param_of(net, fqn), param_of(plain, fqn));
    expect_near(engine.full_parameter("layers.1.w"), plain->layers["1"]->w);
  });
}

TEST_F(IgnoredTest, ASkippedStepAndDiscardedGradientsLeaveNone) {
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    engine.backward(engine.forward(net, input(0)) * INFINITY, 2);
    EXPECT_TRUE(net->head->weight.grad().defined());
    EXPECT_TRUE(engine.step().skipped);
    EXPECT_FALSE(net->head->weight.grad().defined());
    backward(engine, net, 1);
    engine.discard_gradients();
    EXPECT_FALSE(net->head->weight.grad().defined());
  });
}

// One rank's loss alone reaches the head; nobody's reaches the gain of layer 1.
TEST_F(IgnoredTest, ARankThatDoesNotUseOneCountsAsZeros) {
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    struct PartImpl : nn::Module {
      explicit PartImpl(std::shared_ptr<NetImpl> net) : net(std::move(net)) {}
      at::Tensor forward(const at::Tensor& x, bool uses_head) {
        const at::Tensor y = net->layers["0"](x);
        return uses_head ? net->head(y).sum() : y.sum();
      }
      std::shared_ptr<NetImpl> net;
    };
    const auto part = std::make_shared<PartImpl>(net);
    engine.backward(engine.forward(part, input(0), engine.rank() == 1), 2);
    engine.step();
    EXPECT_TRUE(net->head->bias.grad().equal(torch::ones({3})));  // 4 rows / 4 targets
    EXPECT_FALSE(net->layers["1"]->gain.grad().defined());
  });
}

TEST_F(IgnoredTest, StartAsShardedParametersDo) {
  sharded.seed = whole.seed = 11;
  sharded.init = whole.init = {{"*.gain", normal(1, 0.5)}};
  std::map<std::string, at::Tensor> expected;
  each_rank(
      1, sharded,
      [&](Engine& engine, auto&) {
        for (const std::string& fqn : kWhole) expected[fqn] = engine.full_parameter(fqn);
      },
      deferred);
  whole.init_report = true;
  each_rank(
      2, whole,
      [&](Engine& engine, auto& net) {
        for (const std::string& fqn : kWhole) {
          EXPECT_TRUE(param_of(net, fqn).equal(expected[fqn])) << fqn;
          EXPECT_TRUE(param_of(net, fqn).requires_grad() && param_of(net, fqn).is_leaf());
        }
        std::map<std::string, std::string> who;
        for (const InitEntry& entry : engine.init_report()) who[entry.fqn] = entry.who;
        EXPECT_EQ(who["layers.1.gain"], "rule *.gain");
        EXPECT_EQ(who["head.bias"], "constructor");
      },
      deferred);
}

TEST_F(IgnoredTest, FunctionsMakeThemToo) {
  whole.param_init = [](const InitCall& call) {
    auto* linear = call.module.as<nn::LinearImpl>();
    if (!linear) return InitDone::kLeftRest;
    linear->weight.fill_(2);
    linear->bias.fill_(3);
    return InitDone::kAll;
  };
  each_rank(
      2, whole,
      [&](Engine&, auto& net) {
        EXPECT_TRUE(net->head->weight.equal(torch::full({3, 8}, 2.0)));
        EXPECT_TRUE(net->layers["1"]->gain.equal(torch::ones({8})));
      },
      deferred);
}

TEST_F(IgnoredTest, Rank0sValuesAreSentAndTypesStay) {
  whole.dtype = DType::kBf16;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto net = filled();
    const torch::NoGradGuard no_grad;
    net->head->bias.fill_(comm->rank() + 1);
    net->head->to(at::kHalf);
    const Engine engine(net, whole, std::move(comm));
    EXPECT_TRUE(net->head->bias.equal(torch::ones({3}, at::kHalf)));
    EXPECT_EQ(net->layers["0"]->gain.scalar_type(), at::kFloat);
  });
}

// A checkpoint does not tell who had them: each reads the other's.
TEST_F(IgnoredTest, CheckpointsAreThoseOfShardedParameters) {
  for (const bool is_whole : {true, false}) {
    std::string path;
    std::map<std::string, at::Tensor> expected;
    each_rank(2, is_whole ? whole : sharded, [&](Engine& engine, auto& net) {
      backward(engine, net, 1);
      engine.step();
      const torch::NoGradGuard no_grad;
      for (const std::string& fqn : kWhole) {
        if (is_whole) param_of(net, fqn).sub_(0.5);
        const at::Tensor value =
            is_whole ? param_of(net, fqn).clone() : engine.full_parameter(fqn);
        if (engine.rank() == 0) expected[fqn] = value;
      }
      SavedState state;
      state.step = 1;
      const std::string saved = save_checkpoint(engine, run, state);
      if (engine.rank() == 0) path = saved;
    });
    for (const Options& options : {whole, sharded}) {
      each_rank(2, options, [&](Engine& engine, auto& net) {
        const SavedState state = load_checkpoint(engine, path);
        EXPECT_TRUE(state.missing.empty() && state.extra.empty());
        for (const std::string& fqn : kWhole) {
          const at::Tensor value = options.ignored.empty() ? engine.full_parameter(fqn)
                                                           : param_of(net, fqn).detach();
          EXPECT_TRUE(value.equal(expected[fqn])) << fqn;
        }
      });
    }
    fs::remove_all(run);
  }
}

TEST_F(IgnoredTest, SeedsHoldThem) {
  sharded.seed = whole.seed = 4;
  const std::string path = save_seed(*deferred(), whole, run, {});
  LoadOptions weights_alone;
  weights_alone.with_optimizer = false;
  each_rank(
      2, whole,
      [&](Engine&, auto& net) {
        const at::Tensor expected = net->head->weight.detach().clone();
        Options later = sharded;
        later.source = Source::kCheckpoint;
        const auto other = deferred();
        Engine engine(other, later, make_one_rank());
        load_checkpoint(engine, path, weights_alone);
        EXPECT_TRUE(engine.full_parameter("head.weight").equal(expected));
      },
      deferred);
}

TEST_F(IgnoredTest, ComeFromSafetensors) {
  fs::create_directories(run);
  const auto source = filled();
  std::vector<checkpoint::SafeTensorSpec> tensors;
  for (const auto& item : source->named_parameters())
    tensors.push_back({item.key(), DType::kFp32, item.value().sizes().vec()});
  checkpoint::SafetensorsWriter writer(run, tensors, 1 << 30);
  for (const auto& item : source->named_parameters())
    writer.write(item.key(), 0,
                 std::span(item.value().const_data_ptr<float>(), item.value().numel()));
  writer.finish();
  each_rank(
      2, whole,
      [&](Engine& engine, auto& net) {
        load_safetensors(engine, run);
        EXPECT_TRUE(net->head->weight.equal(source->head->weight));
        EXPECT_TRUE(engine.full_parameter("layers.0.w").equal(source->layers["0"]->w));
      },
      deferred);
}

// Each rank may do with them what it likes: a checkpoint has their mean.
TEST_F(IgnoredTest, CopiesThatDifferAreSavedAsTheirMeanAndStay) {
  whole.average_buffers_each_step = true;
  each_rank(2, whole, [&](Engine& engine, auto& net) {
    const torch::NoGradGuard no_grad;
    net->head->bias.fill_(engine.rank());
    engine.average_buffers();
    EXPECT_TRUE(net->head->bias.equal(torch::full({3}, float(engine.rank()))));
    EXPECT_TRUE(engine.averaged_buffer("head.bias").equal(torch::full({3}, 0.5)));
  });
}

TEST_F(IgnoredTest, PatternsThatMatchNothingAreNamed) {
  EXPECT_THAT(refused({{"tail"}}), HasSubstr("'tail' matches no parameter"));
  EXPECT_THAT(refused({{"head"}, {"head.b*"}}),
              HasSubstr("'head.b*' matches no parameter that patterns before it"));
  EXPECT_EQ(refused({{"head.b*", false}, {"head"}}), "no error");
}

struct TiedImpl : nn::Module {
  TiedImpl() {
    a = register_module("a", nn::Linear(4, 4));
    b = register_module("b", std::make_shared<nn::Module>("b"));
    b->register_parameter("weight", a->weight);
  }
  nn::Linear a = nullptr;
  std::shared_ptr<nn::Module> b;
};

TEST_F(IgnoredTest, ATiedParameterIsIgnoredUnderAllOfItsNames) {
  const auto tied = [&](std::vector<Ignored> ignored) {
    whole.ignored = std::move(ignored);
    return error_of([&] { plan(*std::make_shared<TiedImpl>(), whole, 1); });
  };
  EXPECT_THAT(tied({{"a"}}),
              HasSubstr("a.weight, which 'a' averages, and b.weight, which nothing"));
  EXPECT_THAT(tied({{"b.weight"}}), HasSubstr("would be ignored in part"));
  EXPECT_THAT(tied({{"a"}, {"b", false}}), HasSubstr("which 'b' leaves alone"));
  EXPECT_EQ(tied({{"a"}, {"b"}}), "no error");
}

TEST_F(IgnoredTest, ATiedParameterIsSavedUnderAllOfItsNames) {
  whole.ignored = {{"*.weight"}};
  const auto expect_both = [](const std::string& path) {
    EXPECT_THAT(checkpoint::Reader(path).manifest().aliases,
                ElementsAre(Pair("b.weight", "a.weight")));
  };
  const auto tied = [] {
    const DeferredInit guard;
    return std::make_shared<TiedImpl>();
  };
  expect_both(save_seed(*tied(), whole, run + "/seed", {}));
  Engine engine(tied(), whole);
  expect_both(save_checkpoint(engine, run, {.step = 1}));
}

TEST_F(IgnoredTest, CallsAboutShardsNameThem) {
  each_rank(1, whole, [&](Engine& engine, auto&) {
    EXPECT_THAT(error_of([&] { engine.full_parameter("head.weight"); }),
                HasSubstr("a parameter that Options::ignored leaves to the caller"));
    EXPECT_EQ(engine.num_parameters(), 2 * (64 + 8) + 27);
    EXPECT_EQ(engine.shards().size(), 2u);
  });
}

}  // namespace
}  // namespace zero::testing::ignored_test
