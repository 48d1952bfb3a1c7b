// Parameters and buffers of units (docs/units.md): the numbers of the plain module, or an
// error by name before anything has changed.
#include <cstdio>

#include "engine/device/torch/compute_type.h"
#include "engine/unit/model_scan.h"
#include "tests/engine/small_models.h"

namespace zero::testing::unit_state_test {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

// ---- buffers

struct NormedImpl : nn::Module {
  NormedImpl() { norm = register_module("norm", nn::BatchNorm1d(3)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x * 2); }
  nn::BatchNorm1d norm{nullptr};
};

TEST_P(UnitContract, BatchNormCountsEachForwardOnce) {
  auto plain = std::make_shared<HolderImpl<NormedImpl>>();
  plain->forward(values({4, 3})).pow(3).sum().backward();
  plain->forward(values({4, 3}, 0, 4)).pow(3).sum().backward();
  each_rank(
      [] { return std::make_shared<HolderImpl<NormedImpl>>(); },
      [&](Engine& engine, auto& model) {
        const at::Tensor one = engine.forward(model, values({4, 3})).pow(3).sum();
        const at::Tensor two = engine.forward(model, values({4, 3}, 0, 4)).pow(3).sum();
        engine.backward(two, 1);  // what it leaves behind, the first must not undo
        engine.backward(one, 0);
        for (const auto& item : plain->named_buffers())
          EXPECT_TRUE(torch::equal(item.value(), model->named_buffers()[item.key()]))
              << item.key();
        for (const auto& item : plain->named_parameters())
          expect_near(engine.full_gradient(item.key()), item.value().grad());
      });
}

struct NormedLinearImpl : nn::Module {
  NormedLinearImpl() {
    linear = register_module("linear", nn::Linear(3, 3));
    norm = register_module("norm", nn::BatchNorm1d(3));
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(values({3, 3}));
    linear->bias.copy_(values({3}));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(linear(x)).relu(); }
  nn::Linear linear{nullptr};
  nn::BatchNorm1d norm{nullptr};
};

// In bf16 and fp16 the parameters of a batch norm stay fp32, as its statistics do.
TEST_P(UnitContract, BatchNormIn16BitsIsWhatItIsInLibTorch) {
  for (const auto& [dtype, is_frozen] :
       {std::pair(DType::kBf16, false), {DType::kBf16, true}, {DType::kFp16, false}}) {
    options.dtype = dtype;
    if (dtype == DType::kFp16) options.loss_scale.init = 1;  // as the plain module
    const at::ScalarType type = scalar_type(dtype);
    options.groups.clear();
    if (is_frozen) options.groups = {{"unit.norm.*", 1, {}, /*frozen=*/true}};
    each_rank(
        [] { return std::make_shared<HolderImpl<NormedLinearImpl>>(); },
        [&, is_frozen = is_frozen](Engine& engine, auto& model) {
          auto plain = std::make_shared<HolderImpl<NormedLinearImpl>>();
          plain->unit->linear->to(type);
          for (int step = 0; step < 2; ++step) {
            const at::Tensor x = values({4, 3}, step, 2), plain_x = x.to(type);
            const at::Tensor y = engine.forward(model, x),
                             plain_y = plain->forward(plain_x);
            ASSERT_TRUE(torch::equal(y, plain_y)) << y << plain_y;
            plain->zero_grad();
            plain_y.to(at::kFloat).pow(3).sum().backward();
            engine.backward(y.to(at::kFloat).pow(3).sum(), 1);
            for (const auto& item : plain->named_buffers())
              EXPECT_TRUE(torch::equal(item.value(), model->named_buffers()[item.key()]));
            for (const auto& item : plain->named_parameters()) {
              if (is_frozen && item.key().find("norm") != std::string::npos) continue;
              EXPECT_TRUE(torch::equal(engine.full_gradient(item.key()),
                                       item.value().grad().to(at::kFloat)))
                  << item.key();
            }
            EXPECT_FALSE(engine.step().skipped);
            const torch::NoGradGuard no_grad;
            for (const auto& item : plain->named_parameters())
              item.value().copy_(engine.full_parameter(item.key()));
          }
          EXPECT_EQ(engine.allocated_bytes(), [&] {
            int64_t bytes = 0;
            for (const MemoryEntry& entry : engine.memory()) bytes += entry.bytes;
            return bytes;
          }());
        });
  }
}

TEST(NormsWithStatistics, StayFp32) {
  const auto stays = [](nn::Module& norm) {
    return scan_model(norm).params.at(0).stays_fp32;
  };
  const auto options =
      nn::InstanceNorm1dOptions(3).affine(true).track_running_stats(true);
  EXPECT_TRUE(stays(*nn::BatchNorm1d(3)));
  EXPECT_TRUE(stays(*nn::BatchNorm2d(3)));
  EXPECT_TRUE(stays(*nn::BatchNorm3d(3)));
  EXPECT_TRUE(stays(*nn::InstanceNorm1d(options)));
  EXPECT_TRUE(stays(*nn::InstanceNorm2d(options)));
  EXPECT_TRUE(stays(*nn::InstanceNorm3d(options)));
  EXPECT_FALSE(stays(*nn::LayerNorm(nn::LayerNormOptions({3}))));
}

struct PowerImpl : nn::Module {  // as spectral norm keeps a vector that each forward
                                 // turns
  PowerImpl() {
    w = register_parameter("w", values({3, 3}));
    u = register_buffer("u", values({3}, 0.2, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor now;
    {
      const torch::NoGradGuard no_grad;
      u.copy_(torch::mv(w, u) / torch::mv(w, u).norm());
      now = u.clone();
    }
    return torch::matmul(x, w / torch::dot(now, torch::mv(w, now)));
  }
  at::Tensor w, u;
};

TEST_P(UnitContract, BuffersThatTurnWithEachForwardAreTheSameInBackward) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<PowerImpl>>(); },
      [calls = std::make_shared<std::map<std::thread::id, int>>()](
          auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

struct MaskedImpl : ScaleImpl {
  explicit MaskedImpl(int64_t numel) {
    mask = register_buffer("mask", torch::ones({numel}));
  }
  at::Tensor forward(const at::Tensor& x) { return x * w * mask.slice(0, 0, 3).clone(); }
  at::Tensor mask;
};

TEST_P(UnitContract, ABufferChangedBeforeBackwardIsNamed) {
  if (!recomputes()) GTEST_SKIP() << "the graph is kept";
  each_rank([] { return std::make_shared<HolderImpl<MaskedImpl>>(1 << 16); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              model->unit->mask.zero_();
              EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                          ::testing::AllOf(HasSubstr("mask"), HasSubstr("unit")));
            });
}

TEST_P(UnitContract, ASmallBufferIsInBackwardWhatItWasInForward) {
  auto plain = std::make_shared<HolderImpl<MaskedImpl>>(3);
  plain->forward(values({4, 3})).sum().backward();
  each_rank([] { return std::make_shared<HolderImpl<MaskedImpl>>(3); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              model->unit->mask.zero_();
              engine.backward(loss, 1);
              expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
              EXPECT_EQ(model->unit->mask.sum().template item<float>(), 0);
            });
}

// ---- changed parameters, sparse gradients

struct EmbedsImpl : nn::Module {
  explicit EmbedsImpl(nn::EmbeddingOptions options) {
    torch::manual_seed(4);
    embed = register_module("embed", nn::Embedding(options));
    torch::NoGradGuard no_grad;
    embed->weight.copy_(values({7, 3}, -2, 2));
  }
  at::Tensor forward(const at::Tensor& tokens) { return embed(tokens).pow(2); }
  nn::Embedding embed{nullptr};
};

TEST_P(UnitContract, SparseGradientsAreMadeDense) {
  const auto options = nn::EmbeddingOptions(7, 3).sparse(true);
  expect_plain_numbers([&] { return std::make_shared<HolderImpl<EmbedsImpl>>(options); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor tokens = torch::tensor({1, 5, 1, 0}, at::kLong);
                         return (forward(tokens) * x).sum();
                       });
}

TEST_P(UnitContract, AParameterChangedInForwardIsKeptOrNamed) {
  const auto embedding = nn::EmbeddingOptions(7, 3).max_norm(1.0);
  const at::Tensor tokens = torch::tensor({1, 5}, at::kLong);
  auto plain = std::make_shared<HolderImpl<EmbedsImpl>>(embedding);
  plain->forward(tokens);
  each_rank(
      [&] { return std::make_shared<HolderImpl<EmbedsImpl>>(embedding); },
      [&](Engine& engine, auto& model) {
        if (engine.size() == 1 && !recomputes()) {
          engine.forward(model, tokens);
          expect_near(engine.full_parameter("unit.embed.weight"),
                      plain->unit->embed->weight);
          return;
        }
        EXPECT_THAT(error_of([&] { engine.forward(model, tokens); }),
                    HasSubstr("unit.embed.weight"));
        expect_near(engine.full_parameter("unit.embed.weight"), values({7, 3}, -2, 2));
      });
}

// Copies in 16 bits are no masters, and a rank that holds all weights has no others'.
TEST_P(UnitContract, AParameterThatIsNoMasterOfAllRanksIsNotChanged) {
  const auto embedding = nn::EmbeddingOptions(7, 3).max_norm(1.0);
  options.recompute = Recompute::kNone;
  ranks() == 1 ? void(options.dtype = DType::kBf16) : void(options.shard_ranks = 1);
  each_rank(
      [&] { return std::make_shared<HolderImpl<EmbedsImpl>>(embedding); },
      [&](Engine& engine, auto& model) {
        const at::Tensor tokens = torch::tensor({1, 5}, at::kLong) + engine.rank();
        EXPECT_THAT(error_of([&] { engine.forward(model, tokens); }),
                    HasSubstr("unit.embed.weight"));
        expect_near(engine.full_parameter("unit.embed.weight"), values({7, 3}, -2, 2));
      });
}

TEST_P(UnitContract, AParameterChangedThroughDataIsNamed) {
  struct ClampsImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& x) {
      w.data().clamp_(0.6, 0.9);
      return x * w;
    }
  };
  if (ranks() == 1 && !recomputes()) GTEST_SKIP() << "written to its shard";
  each_rank([] { return std::make_shared<HolderImpl<ClampsImpl>>(); },
            [&](Engine& engine, auto& model) {
              EXPECT_THAT(error_of([&] {
                            engine.forward(model, values({4, 3}));
                          }),
                          HasSubstr("unit.w"));
            });
}

// A unit has two parts: what is trained, and what is frozen.
TEST_P(UnitContract, AllPartsOfAUnitGetTheirValuesBack) {
  struct DoublesImpl : ScaleImpl {
    DoublesImpl() { b = register_parameter("b", values({3}, 3, 4)); }
    at::Tensor forward(const at::Tensor& x) {
      w.data().mul_(2);
      b.data().mul_(2);
      return x * w + b;
    }
    at::Tensor b;
  };
  options.groups = {{"unit.b", 1, {}, true}};
  for (const DType kept : {DType::kFp32, DType::kBf16}) {  // as it is, or decoded
    const bool is_in_place = ranks() == 1 && kept == DType::kFp32;
    if (is_in_place && !recomputes()) continue;  // written to its shard
    options.frozen_dtype = kept;
    each_rank([] { return std::make_shared<HolderImpl<DoublesImpl>>(); },
              [&](Engine& engine, auto& model) {
                EXPECT_THAT(error_of([&] {
                              engine.forward(model, values({4, 3}));
                            }),
                            HasSubstr("changes a parameter in place"));
                expect_near(engine.full_parameter("unit.w"), values({3}, 0.5, 2));
                expect_near(engine.full_parameter("unit.b"), values({3}, 3, 4));
              });
  }
}

TEST_P(UnitContract, OneRanksRootMayChangeItsWeights) {
  struct ClampsImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& x) {
      w.data().clamp_(0.6, 0.9);
      return (x * w).sum();
    }
  };
  if (ranks() > 1) GTEST_SKIP() << "gathers copies";
  each_rank([] { return std::make_shared<ClampsImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})), 1);
              expect_near(engine.full_parameter("w"),
                          values({3}, 0.5, 2).clamp(0.6, 0.9));
            });
}

// ---- frozen

TEST_P(UnitContract, AFrozenBackboneCostsNothingInBackward) {
  options.groups = {{"units.0.*", 1, {}, true}, {"embed", 1, {}, true}};
  options.trace_comm = ::testing::TempDir() + "frozen_trace_" + std::to_string(ranks()) +
                       std::to_string(recomputes());
  options.prefetch = 0;
  auto plain = std::make_shared<MlpImpl>();
  plain->forward(values({4, 3})).backward();
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    Options mine = options;
    mine.trace_comm += "_" + std::to_string(comm->rank());
    std::remove(mine.trace_comm.c_str());
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, mine, std::move(comm));
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor loss = engine.forward(model, values({4, 3}));
      const int64_t before = engine.num_gathers();
      engine.backward(loss, pass == 0);
      EXPECT_EQ(engine.num_gathers(), before)
          << "units.1 is still there, units.0 unneeded";
    }
    expect_near(engine.full_gradient("units.1.w"),
                plain->named_parameters()["units.1.w"].grad() * 2);
  });
}

// ---- modules in two places

// A unit inside another one and again outside of it.
struct TwiceHeldImpl : nn::Module {
  struct OuterImpl : ScaleImpl {
    OuterImpl() { inner = register_module("inner", Unit<ReluImpl>::make()); }
    at::Tensor forward(const at::Tensor& x) { return inner(x * w); }
    Unit<ReluImpl> inner;
  };
  TwiceHeldImpl() {
    outer = register_module("outer", Unit<OuterImpl>::make());
    again = register_module("again", outer->inner);
  }
  at::Tensor forward(const at::Tensor& x) { return again(outer(x) + x).pow(2).sum(); }
  Unit<OuterImpl> outer;
  Unit<ReluImpl> again;
};

TEST_P(UnitContract, AUnitMayStandInsideAnotherAndOutsideOfIt) {
  expect_plain_numbers([] { return std::make_shared<TwiceHeldImpl>(); },
                       [](auto forward, const at::Tensor& x) { return forward(x); });
}

// The inner one's weight is the outer one's, too, and is used outside of both.
struct TiedTwiceImpl : nn::Module {
  struct OuterImpl : nn::Module {
    OuterImpl() {
      inner = register_module("inner", Unit<ReluImpl>::make());
      tied = register_parameter("tied", inner->w);
    }
    at::Tensor forward(const at::Tensor& x) { return inner(x * tied); }
    Unit<ReluImpl> inner;
    at::Tensor tied;
  };
  TiedTwiceImpl() {
    outer = register_module("outer", Unit<OuterImpl>::make());
    again = register_module("again", outer->inner);
  }
  at::Tensor forward(const at::Tensor& x) { return again(outer(x) + x).pow(2).sum(); }
  Unit<OuterImpl> outer;
  Unit<ReluImpl> again;
};

TEST_P(UnitContract, ATiedWeightOfAUnitInTwoPlacesIsThereInBoth) {
  expect_plain_numbers([] { return std::make_shared<TiedTwiceImpl>(); },
                       [](auto forward, const at::Tensor& x) { return forward(x); });
}

struct TwoNamesImpl : nn::Module {
  struct BothImpl : nn::Module {
    BothImpl() {
      one = register_module("one", nn::BatchNorm1d(3));
      register_module("two", one.ptr());
    }
    at::Tensor forward(const at::Tensor& x) { return one(one(x) * x); }
    nn::BatchNorm1d one{nullptr};
  };
  TwoNamesImpl() {
    unit = register_module("unit", Unit<BothImpl>::make());
    three = register_module("three", unit->one.ptr());
  }
  at::Tensor forward(const at::Tensor& x) { return three->forward(unit(x)); }
  Unit<BothImpl> unit;
  std::shared_ptr<nn::BatchNorm1dImpl> three;
};

TEST_P(UnitContract, ABufferOfSeveralNamesIsOne) {
  auto plain = std::make_shared<TwoNamesImpl>();
  plain->forward(values({4, 3})).pow(3).sum().backward();
  each_rank([] { return std::make_shared<TwoNamesImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})).pow(3).sum(), 1);
              for (const auto& item : plain->named_buffers())
                expect_near(model->named_buffers()[item.key()], item.value());
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

// As observers keep the largest value they saw: not every forward changes it.
struct ObserverImpl : ScaleImpl {
  ObserverImpl() { largest = register_buffer("largest", torch::zeros({3})); }
  at::Tensor forward(const at::Tensor& x) {
    {
      const torch::NoGradGuard no_grad;
      largest.copy_(torch::max(largest, std::get<0>(x.max(0))));
    }
    return x * w * largest.clone();
  }
  at::Tensor largest;
};

TEST_P(UnitContract, AForwardMayLeaveABufferThatTheNextOneChanges) {
  auto plain = std::make_shared<HolderImpl<ObserverImpl>>();
  for (const double to : {1.0, 2.0, 2.0, 3.0})
    plain->forward(values({4, 3}, 0, to)).sum().backward();
  each_rank([] { return std::make_shared<HolderImpl<ObserverImpl>>(); },
            [&](Engine& engine, auto& model) {
              std::vector<at::Tensor> losses;
              for (const double to : {1.0, 2.0, 2.0, 3.0})
                losses.push_back(engine.forward(model, values({4, 3}, 0, to)).sum());
              for (const at::Tensor& loss : losses)
                engine.backward(loss, &loss == &losses[0]);
              expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
              expect_near(model->unit->largest, plain->unit->largest);
            });
}

TEST_P(UnitContract, StreamingChangesNoBitOfAUnitThatIsCalledTwice) {
  if (ranks() > 1) GTEST_SKIP() << "one rank computes in place";
  std::vector<at::Tensor> grads;
  for (const bool streams : {false, true}) {
    options.stream_always = streams;
    each_rank([] { return std::make_shared<TwiceHeldImpl>(); },
              [&](Engine& engine, auto& model) {
                for (const double to : {1.1, 1.7, 2.3})
                  engine.backward(engine.forward(model, values({4, 3}, -1, to)), 1);
                grads.push_back(engine.full_gradient("again.w"));
              });
  }
  EXPECT_TRUE(torch::equal(grads[0], grads[1])) << grads;
}

TEST_P(UnitContract, AUnitMayHaveParametersOfNoElements) {
  struct EmptyImpl : nn::Module {
    EmptyImpl() { w = register_parameter("w", torch::zeros({0, 3})); }
    at::Tensor forward(const at::Tensor& x) { return torch::cat({x * 2, w}); }
    at::Tensor w;
  };
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<EmptyImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

// A window of the last four rows, which begins somewhere in its memory.
TEST_P(UnitContract, ABufferMaySlide) {
  struct WindowImpl : ScaleImpl {
    WindowImpl() { cache = register_buffer("cache", torch::ones({3, 3})); }
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor all = torch::cat({cache, x.detach()});
      at::Tensor y = x * w * cache.sum(0);
      cache.set_data(all.narrow(0, all.size(0) - 4, 4));
      return y;
    }
    at::Tensor cache;
  };
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<WindowImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

// A buffer that grows with each forward, as a cache does.
TEST_P(UnitContract, ABufferMayGrow) {
  struct CacheImpl : ScaleImpl {
    CacheImpl() { cache = register_buffer("cache", torch::ones({1, 3})); }
    at::Tensor forward(const at::Tensor& x) {
      cache.set_data(torch::cat({cache, x.detach()}));
      return x * w * cache.mean(0);
    }
    at::Tensor cache;
  };
  each_rank([] { return std::make_shared<HolderImpl<CacheImpl>>(); },
            [&](Engine& engine, auto& model) {
              auto plain = std::make_shared<HolderImpl<CacheImpl>>();
              for (int step = 0; step < 2; ++step) {
                engine.backward(engine.forward(model, values({4, 3})).sum(), 1);
                plain->forward(values({4, 3})).sum().backward();
                EXPECT_TRUE(torch::equal(model->unit->cache, plain->unit->cache));
              }
              expect_near(engine.full_gradient("unit.w") * 2, plain->unit->w.grad());
            });
}

TEST_P(UnitContract, ABufferMayBeExpanded) {
  struct TableImpl : ScaleImpl {
    TableImpl() { table = register_buffer("table", values({1, 3}).expand({4, 3})); }
    at::Tensor forward(const at::Tensor& x) { return x * w + table; }
    at::Tensor table;
  };
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<TableImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

}  // namespace
}  // namespace zero::testing::unit_state_test
