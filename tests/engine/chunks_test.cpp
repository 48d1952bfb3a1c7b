// Units that work through their batch in micro-batches (Accumulate::kUnit): the numbers
// of the whole batch, or an error by name.
#include "engine/unit/chunks.h"

#include "tests/engine/unit_contract.h"

namespace zero::testing::chunks_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct ScaleImpl : nn::Module {
  ScaleImpl() { w = register_parameter("w", values({3}, 0.5, 2)); }
  at::Tensor w;
};

class ChunksTest : public UnitContract {
 protected:
  ChunksTest() {
    options.accumulate = Accumulate::kUnit;
    options.micro_batch = 1;
  }
  // What a forward of the model says, on every rank.
  template <class Make, class Run>
  void expect_refused(Make make, Run run, const std::string& what) {
    each_rank(make, [&](Engine& engine, auto& model) {
      EXPECT_THAT(error_of([&] {
                    run([&](auto&&... args) { return engine.forward(model, args...); });
                  }),
                  AllOf(HasSubstr(what), HasSubstr("unit")));
    });
  }
};

INSTANTIATE_TEST_SUITE_P(, ChunksTest,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

// ---- results

struct SumsImpl : ScaleImpl {
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    rows = x.size(0);
    const at::Tensor y = (x * w).sin();
    return {y, sum_of_chunks(y.pow(2).sum()), mean_of_chunks(y.pow(3).mean()),
            same_in_chunks(w.pow(2))};
  }
  int64_t rows = 0;
};

TEST_P(ChunksTest, ResultsAreJoinedAsTheyAreMarked) {
  for (const int64_t micro_batch : {1, 2, 4}) {
    options.micro_batch = micro_batch;
    expect_plain_numbers([] { return std::make_shared<HolderImpl<SumsImpl>>(); },
                         [](auto forward, const at::Tensor& x) {
                           const auto y = forward(x);
                           return y[0].pow(2).sum() + y[1] * 2 + y[2] * 3 +
                                  (y[3] * y[3]).sum();
                         });
  }
  options.micro_batch = 2;
  each_rank([] { return std::make_shared<HolderImpl<SumsImpl>>(); },
            [&](Engine& engine, auto& model) {
              engine.forward(model, values({4, 3}));
              EXPECT_EQ(model->unit->rows, 2);
              const torch::NoGradGuard no_grad;
              const auto y = engine.forward(model, values({4, 3}));
              const auto plain = std::make_shared<SumsImpl>()->forward(values({4, 3}));
              for (size_t i = 0; i < y.size(); ++i) expect_near(y[i], plain[i]);
            });
}

struct ForgetsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return (x * w).sum(); }
};

// As embeddings of positions do: the gradient of w is the memory of the input's.
struct AddsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return x + w.unsqueeze(0); }
};

TEST_P(ChunksTest, AGradientInTheMemoryOfAnothersIsAddedUpElsewhere) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<AddsImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x.sin()).pow(2).sum(); });
}

TEST_P(ChunksTest, AResultWithoutRowsMustSayHowItIsJoined) {
  expect_refused([] { return std::make_shared<HolderImpl<ForgetsImpl>>(); },
                 [](auto forward) {
                   forward(values({4, 3}));
                 },
                 "zero::sum_of_chunks");
}

// ---- arguments

struct MasksImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    return torch::matmul(x * w, mask);
  }
};
template <class Mark>
struct MarkedModelImpl : nn::Module {
  MarkedModelImpl() { unit = register_module("unit", Unit<MasksImpl>::make()); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    return unit(batched(x), Mark::mark(mask));
  }
  Unit<MasksImpl> unit{nullptr};
};
struct AsShared {
  static auto mark(const at::Tensor& t) { return shared(t); }
};
struct AsBatched {
  static auto mark(const at::Tensor& t) { return batched(t); }
};
struct AsNothing {
  static auto mark(const at::Tensor& t) { return t; }
};

TEST_P(ChunksTest, ASharedMatrixIsUsedWholeByEveryMicroBatch) {
  expect_plain_numbers([] { return std::make_shared<MarkedModelImpl<AsShared>>(); },
                       [](auto forward, const at::Tensor& x) {
                         // (3, 3): has as many rows as the batch of three
                         const at::Tensor h = x.narrow(0, 0, 3);
                         return forward(h, h.cos()).pow(2).sum();
                       });
}

TEST_P(ChunksTest, WhatOnlyLooksBatchedMustSayWhatItIs) {
  expect_refused([] { return std::make_shared<MarkedModelImpl<AsNothing>>(); },
                 [](auto forward) {
                   forward(values({3, 3}), torch::eye(3));
                 },
                 "is it batched, or does it only look so?");
  expect_refused([] { return std::make_shared<MarkedModelImpl<AsBatched>>(); },
                 [](auto forward) {
                   forward(values({4, 3}), torch::eye(3));
                 },
                 "marked as batched, but has not the 4 rows");
}

TEST_P(ChunksTest, ABatchThatDoesNotDivideIsNamed) {
  options.micro_batch = 3;
  expect_refused([] { return std::make_shared<HolderImpl<SumsImpl>>(); },
                 [](auto forward) {
                   forward(values({4, 3}));
                 },
                 "a batch of 4 rows does not divide into micro-batches of 3");
}

TEST_P(ChunksTest, FewerRowsThanAMicroBatchGoAtOnce) {
  options.micro_batch = 8;
  each_rank([] { return std::make_shared<HolderImpl<SumsImpl>>(); },
            [&](Engine& engine, auto& model) {
              engine.forward(model, values({3, 3}));
              EXPECT_EQ(model->unit->rows, 3);
            });
}

// Rows with a positive sum use the other arguments; others do not even touch them.
struct PicksImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& row) {
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < x.size(0); ++i) {
      const at::Tensor y = x[i] * w;
      const bool picks = x[i].sum().item<float>() > 0;
      rows.push_back(picks ? y * bias + row[i].sin() : y);
    }
    return torch::stack(rows);
  }
};
struct PicksModelImpl : nn::Module {
  PicksModelImpl() { unit = register_module("unit", Unit<PicksImpl>::make()); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& row) {
    return unit(batched(x), shared(bias), batched(row));
  }
  Unit<PicksImpl> unit{nullptr};
};

TEST_P(ChunksTest, InputsThatSomeMicroBatchesUseGetTheirGradient) {
  // The last rows use them; the first; every other one.
  for (const std::vector<double>& signs :
       {std::vector<double>{1, 1, 1, 1}, {-1, -1, -1, -1}, {1, -1, -1, 1}}) {
    expect_plain_numbers(
        [] { return std::make_shared<PicksModelImpl>(); },
        [&](auto forward, const at::Tensor& x) {
          const at::Tensor sign = torch::tensor(signs).view({4, 1});
          return forward(x * sign.to(at::kFloat), x[0] * 2, x.cos()).pow(2).sum();
        });
  }
}

// An argument of complex numbers, from real ones, for each row.
struct TurnsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& turn) {
    return torch::real(x * w * turn);
  }
};
struct TurnsModelImpl : nn::Module {
  TurnsModelImpl() { unit = register_module("unit", Unit<TurnsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& turn) {
    return unit(batched(x), shared(turn));
  }
  Unit<TurnsImpl> unit{nullptr};
};

TEST_P(ChunksTest, ASharedComplexInputGetsBothPartsOfItsGradient) {
  expect_plain_numbers([] { return std::make_shared<TurnsModelImpl>(); },
                       [&](auto forward, const at::Tensor& x) {
                         const at::Tensor z = at::complex(x, x.sin());
                         const at::Tensor turn = at::complex(x[0].cos(), x[0] * 2);
                         return forward(z, turn).pow(2).sum();
                       });
}

// Rows of a positive sum have a gradient, the others are as good as constants.
struct SomeRowsImpl : nn::Module {
  SomeRowsImpl() { w = register_parameter("w", values({3}, 0.5, 2)); }
  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& row : x.unbind())
      rows.push_back(row.sum().item<float>() > 0 ? row * w : row.detach() * 2);
    return torch::stack(rows);
  }
  at::Tensor w;
};

TEST_P(ChunksTest, AResultNeedsAGradientIfAnyMicroBatchSaysSo) {
  // The last row; the first; all but the last.
  for (const std::vector<double>& signs :
       {std::vector<double>{1, 1, -1, 1}, {-1, 1, -1, -1}, {-1, -1, 1, -1}}) {
    expect_plain_numbers([] { return std::make_shared<HolderImpl<SomeRowsImpl>>(); },
                         [&](auto forward, const at::Tensor& x) {
                           const at::Tensor sign = torch::tensor(signs).view({4, 1});
                           return forward(x * sign.to(at::kFloat)).pow(2).sum();
                         });
  }
}

// ---- units in units

struct RowsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    rows.push_back(x.size(0));
    return x * w;
  }
  std::vector<int64_t> rows;  // of each call
};
struct HoldsRowsImpl : nn::Module {
  HoldsRowsImpl() { inner = register_module("inner", Unit<RowsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) {
    rows.push_back(x.size(0));
    return inner(x);
  }
  Unit<RowsImpl> inner{nullptr};
  std::vector<int64_t> rows;
};

// Or the inner one's weights would come for each of them.
TEST_P(ChunksTest, AUnitThatHoldsAnotherTakesItsRowsAtOnce) {
  each_rank([] { return std::make_shared<HolderImpl<HoldsRowsImpl>>(); },
            [&](Engine& engine, auto& model) {
              engine.forward(model, torch::ones({4, 3}));
              EXPECT_EQ(model->unit->rows, std::vector<int64_t>{4});
              EXPECT_EQ(model->unit->inner->rows, (std::vector<int64_t>{1, 1, 1, 1}));
            });
}

// ---- sums in fp32

struct CountsImpl : nn::Module {
  CountsImpl() { w = register_parameter("w", torch::ones({1})); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& bias) { return x * w + bias; }
  at::Tensor w;
};
struct CountsModelImpl : nn::Module {
  CountsModelImpl() { unit = register_module("unit", Unit<CountsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& bias, int64_t calls) {
    at::Tensor sum = unit(x, shared(bias)).sum();
    for (int64_t i = 1; i < calls; ++i) sum = sum + unit(x, shared(bias)).sum();
    return sum;
  }
  Unit<CountsImpl> unit{nullptr};
};

// bf16 has eight bits: 256 + 1 is 256 there, and 1,000 a number.
TEST_P(ChunksTest, AThousandGradientsOfOneAreAThousandInBf16) {
  options.dtype = DType::kBf16;
  each_rank(
      [] { return std::make_shared<CountsModelImpl>(); },
      [&](Engine& engine, auto& model) {
        const at::Tensor bias = torch::zeros({1}).requires_grad_();
        const at::Tensor loss = engine.forward(model, torch::ones({1000, 1}), bias, 1);
        engine.backward(loss, 1);
        EXPECT_EQ(engine.full_gradient("unit.w").template item<float>(), 1000);
        EXPECT_EQ(bias.grad().template item<float>(), 1000);
      });
}

TEST_P(ChunksTest, AUnitCalledAThousandTimesHasTheSumOfAllInBf16) {
  options.dtype = DType::kBf16;
  options.accumulate = Accumulate::kModel;
  each_rank([] { return std::make_shared<CountsModelImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss =
                  engine.forward(model, torch::ones({1, 1}), torch::zeros({1}), 1000);
              engine.backward(loss, 1);
              EXPECT_EQ(engine.full_gradient("unit.w").template item<float>(), 1000);
            });
}

// ---- buffers and random numbers

struct NormedImpl : nn::Module {
  NormedImpl() { norm = register_module("norm", nn::BatchNorm1d(3)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  nn::BatchNorm1d norm{nullptr};
};

TEST_P(ChunksTest, BatchNormIsRefusedUnlessItIsMeant) {
  options.micro_batch = 2;
  each_rank(
      [] { return std::make_shared<HolderImpl<NormedImpl>>(); },
      [&](Engine& engine, auto& model) {
        EXPECT_THAT(error_of([&] {
                      engine.forward(model, values({4, 3}));
                    }),
                    AllOf(HasSubstr("norm.running_mean"),
                          HasSubstr("micro_batches_change_buffers")));
        EXPECT_TRUE(torch::equal(model->unit->norm->running_mean, torch::zeros({3})))
            << "as it was";
      });
  options.micro_batches_change_buffers = true;
  // Each micro-batch is normed alone and counts.
  auto plain = std::make_shared<HolderImpl<NormedImpl>>();
  for (const int64_t begin : {0, 2})
    plain->forward(values({4, 3}).narrow(0, begin, 2)).pow(3).sum().backward();
  each_rank([] { return std::make_shared<HolderImpl<NormedImpl>>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})).pow(3).sum(), 1);
              for (const auto& item : plain->named_buffers())
                expect_near(model->named_buffers()[item.key()].to(at::kFloat),
                            item.value().to(at::kFloat));
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

struct DropsImpl : nn::Module {
  DropsImpl() { w = register_parameter("w", torch::ones({64})); }
  at::Tensor forward(const at::Tensor& x) { return torch::dropout(x * w, 0.5, true); }
  at::Tensor w;
};

TEST_P(ChunksTest, EachMicroBatchDrawsItsOwnRandomNumbers) {
  if (ranks() > 1) GTEST_SKIP() << "ranks that are threads share torch's generator";
  each_rank([] { return std::make_shared<HolderImpl<DropsImpl>>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor y = engine.forward(model, torch::ones({2, 64}));
              EXPECT_FALSE(torch::equal(y[0], y[1]));
              engine.backward(y.sum(), 1);
              expect_near(engine.full_gradient("unit.w"), y.detach().sum(0));
            });
}

}  // namespace
}  // namespace zero::testing::chunks_test
