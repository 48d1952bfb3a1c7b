// The loss in chunks against the loss of all logits.
#include "zero/chunked_loss.h"

#include <ATen/autocast_mode.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/engine/training.h"
#include "tests/engine/unit_contract.h"
#include "zero/errors.h"
#include "zero/layers.h"

namespace zero::testing::chunked_loss_test {
namespace {

namespace F = torch::nn::functional;

constexpr int64_t kTokens = 37, kDim = 24, kVocab = 101;

struct Case {
  at::Tensor hidden, weight, targets;  // (tokens, dim), (vocab, dim), (tokens)
};

Case some_case(at::ScalarType type = at::kFloat, int64_t tokens = kTokens,
               double masked = 0.25) {
  at::manual_seed(7);
  const at::Tensor targets = at::randint(kVocab, {tokens}, at::kLong);
  return {at::randn({tokens, kDim}, at::kDouble).to(type),
          (at::randn({kVocab, kDim}, at::kDouble) / 4).to(type),
          targets.masked_fill(at::rand({tokens}) < masked, -1)};
}

at::Tensor whole_loss(const at::Tensor& hidden, const at::Tensor& weight,
                      const at::Tensor& targets) {
  const at::Tensor logits = at::linear(hidden, weight);
  return F::cross_entropy(
      logits.to(at::promote_types(logits.scalar_type(), at::kFloat)), targets,
      F::CrossEntropyFuncOptions().ignore_index(-1).reduction(torch::kSum));
}

// A loss and its gradients, as autograd sees them.
struct Result {
  at::Tensor loss, hidden_grad, weight_grad;
};

template <class Loss>
Result result_of(const Case& given, Loss loss, double factor = 1) {
  const at::Tensor hidden = given.hidden.clone().requires_grad_();
  const at::Tensor weight = given.weight.clone().requires_grad_();
  const at::Tensor sum = loss(hidden, weight, given.targets);
  (sum * factor).backward();
  return {sum.detach(), hidden.grad(), weight.grad()};
}

Result in_chunks(const Case& given, int64_t chunk, double factor = 1) {
  return result_of(
      given,
      [=](const auto& hidden, const auto& weight, const auto& targets) {
        return chunked_loss(hidden, weight, targets, chunk);
      },
      factor);
}
Result whole(const Case& given, double factor = 1) {
  return result_of(given, whole_loss, factor);
}

Case in_double(const Case& given) {
  return {given.hidden.to(at::kDouble), given.weight.to(at::kDouble), given.targets};
}

double error_of(const at::Tensor& value, const at::Tensor& exact) {
  return (value.to(at::kDouble) - exact).norm().item<double>();
}

void expect_near(const at::Tensor& value, const at::Tensor& expected, double rtol,
                 double atol) {
  EXPECT_EQ(value.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::allclose(value, expected, rtol, atol))
      << (value - expected).abs().max();
}

void expect_near(const Result& result, const Result& expected, double rtol = 2e-6,
                 double atol = 2e-6) {
  expect_near(result.loss, expected.loss, rtol, atol);
  expect_near(result.hidden_grad, expected.hidden_grad, rtol, atol);
  expect_near(result.weight_grad, expected.weight_grad, rtol, atol);
}

// Most probabilities of a large vocabulary are below what fp16 holds to three digits.
TEST(ChunkedLoss, SmallGradientsOutliveFp16) {
  constexpr int64_t kLarge = 60000;
  at::manual_seed(3);
  const Case fp16{(at::randn({4, 8}) / 2).to(at::kHalf),
                  (at::randn({kLarge, 8}) / 16).to(at::kHalf),
                  at::randint(kLarge, {4}, at::kLong)};
  const Case fp32{fp16.hidden.to(at::kFloat), fp16.weight.to(at::kFloat), fp16.targets};
  const double scale = 4096;
  const Result found = in_chunks(fp16, 2, scale), expected = in_chunks(fp32, 2, scale);
  const auto error = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a.to(at::kFloat) - b).norm() / b.norm()).item<double>();
  };
  EXPECT_LT(error(found.hidden_grad, expected.hidden_grad), 2e-3);
  EXPECT_LT(error(found.weight_grad, expected.weight_grad), 2e-3);
}

TEST(ChunkedLoss, EqualsTheWholeWhateverTheChunk) {
  const Case given = some_case();
  const Result expected = whole(given), exact = whole(in_double(given));
  for (const int64_t chunk : {1, 5, 36, 37, 38, 1000}) {
    const Result result = in_chunks(given, chunk);
    expect_near(result, expected);
    EXPECT_NEAR(result.loss.item<double>() / exact.loss.item<double>(), 1, 2e-7);
  }
}

TEST(ChunkedLoss, OneChunkOfAllIsTheWholeLossBitForBit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Case given = some_case(type);
    const at::Tensor logits = at::linear(given.hidden, given.weight);
    EXPECT_TRUE(at::equal(in_chunks(given, kTokens).loss,
                          cross_entropy(logits.to(at::kFloat), given.targets)));
  }
}

// It computes as on a GPU, by LibTorch's operators, with products in bf16.
TEST(ChunkedLoss, UnderAutocastIsNearTheWhole) {
  const Case given = some_case();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Result found = in_chunks(given, 8);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  expect_near(found, whole(given), 2e-2, 2e-2);
}

TEST(ChunkedLoss, DoublesStayDoubles) {
  const Case given = in_double(some_case());
  expect_near(in_chunks(given, 8), whole(given), 1e-13, 1e-13);
}

TEST(ChunkedLoss, OneTokenAndNone) {
  expect_near(in_chunks(some_case(at::kFloat, 1, 0), 4),
              whole(some_case(at::kFloat, 1, 0)));
  const Result none = in_chunks(some_case(at::kFloat, 0, 0), 4);
  EXPECT_EQ(none.loss.item<float>(), 0);
  EXPECT_TRUE(at::equal(none.weight_grad, at::zeros({kVocab, kDim})));
}

TEST(ChunkedLoss, WhereAllIsMaskedThereIsNothing) {
  const Result result = in_chunks(some_case(at::kFloat, kTokens, 2), 8);
  EXPECT_EQ(result.loss.item<float>(), 0);
  EXPECT_EQ(result.hidden_grad.abs().sum().item<float>(), 0);
  EXPECT_EQ(result.weight_grad.abs().sum().item<float>(), 0);
}

TEST(ChunkedLoss, GradientsFollowTheFactorOfTheLoss) {
  const Case given = some_case();
  expect_near(in_chunks(given, 8, 1.0 / 3), whole(given, 1.0 / 3));
}

TEST(ChunkedLoss, In16BitsGradientsAreNoFartherFromTheTruth) {
  const Case given = some_case(at::kBFloat16, 512);
  for (const double factor : {1.0, 1.0 / 3}) {
    const Result exact = whole(in_double(given), factor),
                 reference = whole(given, factor);
    for (const int64_t chunk : {7, 64, 512}) {
      const Result result = in_chunks(given, chunk, factor);
      EXPECT_EQ(result.loss.scalar_type(), at::kFloat);
      EXPECT_EQ(result.weight_grad.scalar_type(), at::kBFloat16);
      EXPECT_EQ(result.hidden_grad.scalar_type(), at::kBFloat16);
      EXPECT_LE(error_of(result.weight_grad, exact.weight_grad),
                1.01 * error_of(reference.weight_grad, exact.weight_grad));
      // Less the one rounding more that a factor between the powers of two costs.
      const double rounding = factor == 1.0 ? 1.01 : 1.3;
      EXPECT_LE(error_of(result.hidden_grad, exact.hidden_grad),
                rounding * error_of(reference.hidden_grad, exact.hidden_grad));
    }
  }
}

TEST(ChunkedLoss, TakesWhatModelsHave) {
  const Case given = some_case(at::kFloat, 36);
  const at::Tensor batch =
      given.hidden.reshape({6, 6, kDim}).transpose(0, 1).contiguous().transpose(0, 1);
  const at::Tensor loss =
      chunked_loss(batch, given.weight, given.targets.reshape({6, 6}), 5);
  expect_near(loss, whole(given).loss, 2e-6, 0);
}

TEST(ChunkedLoss, GraphsThatAreKeptGiveTheSameTwice) {
  const Case given = some_case();
  const at::Tensor weight = given.weight.clone().requires_grad_();
  const at::Tensor loss = chunked_loss(given.hidden, weight, given.targets, 8);
  const auto grad = [&](bool keeps) {
    return torch::autograd::grad({loss / 3}, {weight}, {}, keeps)[0].clone();
  };
  const at::Tensor first = grad(true);
  EXPECT_TRUE(at::equal(grad(true), first));
  EXPECT_TRUE(at::equal(grad(false), first));
  EXPECT_ANY_THROW(grad(false));
}

// As a column of a batch is.
TEST(ChunkedLoss, TargetsMayBeStrided) {
  const Case given = some_case();
  Case strided = given;
  strided.targets = at::stack({given.targets, given.targets + 1}, 1).select(1, 0);
  ASSERT_FALSE(strided.targets.is_contiguous());
  const Result expected = in_chunks(given, 8), found = in_chunks(strided, 8);
  EXPECT_TRUE(found.loss.equal(expected.loss));
  EXPECT_TRUE(found.hidden_grad.equal(expected.hidden_grad));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(chunked_loss(strided.hidden, strided.weight, strided.targets, 8)
                  .equal(expected.loss));
}

TEST(ChunkedLoss, WhatDoesNotFitIsRefused) {
  const Case given = some_case();
  const auto refuses = [&](const at::Tensor& hidden, const at::Tensor& weight,
                           const at::Tensor& targets, int64_t chunk) {
    EXPECT_THROW(chunked_loss(hidden, weight, targets, chunk), Error);
  };
  refuses(given.hidden, given.weight, given.targets, 0);
  refuses(given.hidden, given.weight, given.targets, -1);
  refuses(given.hidden, given.weight, given.targets.narrow(0, 0, 3), 8);
  refuses(given.hidden, given.weight.t(), given.targets, 8);
  refuses(given.hidden, given.weight[0], given.targets, 8);
  refuses(at::ones({}), given.weight, given.targets, 8);
  EXPECT_ANY_THROW(  // as all logits do
      chunked_loss(given.hidden, given.weight, at::full({kTokens}, kVocab), 8));
  const at::Tensor hidden = given.hidden.clone().requires_grad_();
  const at::Tensor loss = chunked_loss(hidden, given.weight, given.targets, 8);
  EXPECT_THROW(torch::autograd::grad({loss}, {hidden}, {}, true, /*create_graph=*/true),
               Error);
}

// --- memory

// The largest block that tensors take while it is watched.
class WatchingAllocator final : public c10::Allocator {
 public:
  static WatchingAllocator& instance() {
    static auto* watcher = [] {
      auto* made = new WatchingAllocator(*c10::GetDefaultCPUAllocator());
      c10::SetCPUAllocator(made, /*priority=*/1);
      return made;
    }();
    return *watcher;
  }
  template <class Work>
  size_t largest_during(Work work) {
    largest_ = 0;
    work();
    return largest_;
  }
  c10::DataPtr allocate(size_t bytes) override {
    largest_ = std::max(largest_.load(), bytes);
    return allocator_.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return allocator_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  explicit WatchingAllocator(c10::Allocator& allocator) : allocator_(allocator) {}
  c10::Allocator& allocator_;
  std::atomic<size_t> largest_{0};
};

TEST(ChunkedLossMemory, NoTensorIsLargerThanAChunk) {
  constexpr int64_t kChunk = 32, kMany = 1024;
  Case given = some_case(at::kFloat, kMany);
  auto& watcher = WatchingAllocator::instance();
  const size_t chunk_bytes = kChunk * kVocab * 4;
  const size_t hidden_bytes = kMany * kDim * 4;
  ASSERT_GT(kMany * kVocab * 4, 4 * hidden_bytes);
  const size_t with_grads = watcher.largest_during([&] { in_chunks(given, kChunk); });
  EXPECT_EQ(with_grads, std::max(chunk_bytes, hidden_bytes));
  const size_t without = watcher.largest_during([&] {
    const torch::NoGradGuard no_grad;
    chunked_loss(given.hidden, given.weight.clone().requires_grad_(), given.targets,
                 kChunk);
  });
  EXPECT_LE(without, chunk_bytes);
}

TEST(ChunkedLossMemory, WhatIsFrozenGetsNoGradient) {
  const Case given = some_case(at::kFloat, 4);
  const at::Tensor hidden = given.hidden.clone().requires_grad_();
  const size_t largest = WatchingAllocator::instance().largest_during(
      [&] { chunked_loss(hidden, given.weight, given.targets, 2).backward(); });
  EXPECT_LT(largest, given.weight.nbytes());
  EXPECT_FALSE(given.weight.grad().defined());
  expect_near(hidden.grad(), whole(given).hidden_grad, 2e-6, 2e-6);
}

// --- in an engine

class ChunkedLossInEngine : public ::testing::Test {
 protected:
  Trained train_with(int64_t chunk, int ranks) {
    Gpt2Config config = small_gpt2();
    config.loss_chunk = chunk;
    return train(ranks, options, work, {}, config);
  }

  Work work{.masks_targets = true};
  Options options = small_options(work);
};

TEST_F(ChunkedLossInEngine, ATiedHeadTrainsAlikeOnAnyRanks) {
  const Trained whole = train_with(0, 1);
  for (const int ranks : {1, 2}) expect_close(train_with(7, ranks), whole);
}

TEST_F(ChunkedLossInEngine, WholeBatchesPerUnitTrainAlike) {
  const Trained whole = train_with(0, 2);
  options.accumulate = Accumulate::kUnit;
  options.micro_batch = 1;
  expect_close(train_with(20, 2), whole);
}

TEST_F(ChunkedLossInEngine, AFrozenHeadStaysAsItIs) {
  options.groups = {{"*.bias"}, {"*.weight", 1, {}, /*frozen=*/true}};
  expect_close(train_with(7, 2), train_with(0, 2));
}

// A head that is a unit: recomputed, and released between forward and backward.
struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(int64_t loss_chunk) : chunk(loss_chunk) {
    weight = register_parameter("weight", values({kVocab, kDim}, -0.2, 0.3));
  }
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& targets) {
    const at::Tensor loss = chunk > 0 ? chunked_loss(hidden, weight, targets, chunk)
                                      : whole_loss(hidden, weight, targets);
    return sum_of_chunks(loss);
  }
  const int64_t chunk;
  at::Tensor weight;
};

struct ClassifierImpl : torch::nn::Module {
  explicit ClassifierImpl(int64_t chunk) : head(chunk) {
    stem = register_parameter("stem", values({kDim, kDim}, -0.4, 0.5));
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& targets) {
    return head(batched(at::matmul(x, stem)), batched(targets));
  }
  at::Tensor stem;
  Unit<HeadImpl> head;
};

// The gradient of the head, and the loss of a forward without gradients.
std::pair<at::Tensor, double> head_grad(int64_t chunk, const Options& options) {
  const Case given = some_case(at::kFloat, 24);
  std::pair<at::Tensor, double> result;
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    auto model = std::make_shared<ClassifierImpl>(chunk);
    Engine engine(model, options, std::move(ranks));
    engine.backward(engine.forward(model, given.hidden, given.targets), 24);
    const at::Tensor grad = engine.full_gradient("head.weight");
    engine.step();
    const torch::NoGradGuard no_grad;
    const double loss = engine.forward(model, given.hidden, given.targets).item<double>();
    if (engine.rank() == 0) result = {grad, loss};
  });
  return result;
}

TEST_F(ChunkedLossInEngine, AHeadOfItsOwnIsRecomputedAndReleased) {
  Options options;
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    for (const Accumulate accumulate : {Accumulate::kModel, Accumulate::kUnit}) {
      options.recompute = recompute;
      options.accumulate = accumulate;
      options.micro_batch = accumulate == Accumulate::kUnit ? 12 : 0;
      const auto [whole_grad, whole_after] = head_grad(0, options);
      const auto [grad, after] = head_grad(5, options);
      expect_near(grad, whole_grad, 2e-6, 2e-6);
      EXPECT_NEAR(after / whole_after, 1, 2e-6);
    }
  }
}

// The gradient of a weight is larger than all else that a pass makes.
TEST_F(ChunkedLossInEngine, ARecomputedHeadMakesItsGradientsInBackwardAlone) {
  const Case given = some_case(at::kFloat, 24);
  Options options;
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    options.recompute = recompute;
    auto model = std::make_shared<ClassifierImpl>(/*chunk=*/5);
    Engine engine(model, options);
    const auto forward = [&] {
      engine.backward(engine.forward(model, given.hidden, given.targets), 24);
    };
    forward();  // the first one compares weights as well
    at::Tensor loss;
    auto& watcher = WatchingAllocator::instance();
    const size_t largest = watcher.largest_during(
        [&] { loss = engine.forward(model, given.hidden, given.targets); });
    const bool has_grad = largest >= kVocab * kDim * sizeof(float);
    EXPECT_EQ(has_grad, recompute == Recompute::kNone) << largest;
    engine.backward(loss, 24);
  }
}

// Takes a step against the gradient of its input within forward.
struct StepsImpl : HeadImpl {
  using HeadImpl::HeadImpl;
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& targets) {
    at::Tensor probe = hidden.detach().requires_grad_();
    const at::Tensor slope =
        torch::autograd::grad({HeadImpl::forward(probe, targets)}, {probe})[0];
    return HeadImpl::forward(hidden - slope, targets);
  }
};

TEST_F(ChunkedLossInEngine, ABodyMayTakeAGradientOfItsOwn) {
  const Case given = some_case(at::kFloat, 24);
  StepsImpl plain(5);
  const at::Tensor hidden = given.hidden.clone().requires_grad_();
  plain.forward(hidden, given.targets).backward();

  auto model = std::make_shared<HolderImpl<StepsImpl>>(5);
  Options options;
  Engine engine(model, options);
  const at::Tensor same = given.hidden.clone().requires_grad_();
  engine.backward(engine.forward(model, same, given.targets), 1);
  expect_near(engine.full_gradient("unit.weight"), plain.weight.grad(), 2e-6, 2e-6);
  expect_near(same.grad(), hidden.grad(), 2e-6, 2e-6);
}

}  // namespace
}  // namespace zero::testing::chunked_loss_test
