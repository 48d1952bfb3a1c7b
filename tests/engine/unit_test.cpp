// What a unit promises, whatever the model around it: nested, tied, frozen, called twice
// or not at all.
#include "zero/unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::unit_test {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  explicit BlockImpl(int64_t dim) {
    a = register_module("a", nn::Linear(dim, 2 * dim));
    b = register_module("b", nn::Linear(2 * dim, dim));
  }
  at::Tensor forward(const at::Tensor& x) { return x + b(torch::tanh(a(x))); }
  nn::Linear a{nullptr}, b{nullptr};
};

// A unit that holds a unit, takes several things and returns several things.
struct OuterImpl : nn::Module {
  explicit OuterImpl(int64_t dim) {
    w = register_parameter("w", torch::randn({dim, dim}) * 0.1);
    inner = register_module("inner", Unit<BlockImpl>(dim));
    scale = register_parameter("scale", torch::full({}, 0.5));  // no dimensions
  }
  std::tuple<at::Tensor, std::vector<at::Tensor>> forward(const at::Tensor& x,
                                                          std::optional<at::Tensor> extra,
                                                          double factor) {
    at::Tensor y = inner(torch::matmul(x, w)) * scale;
    if (extra) y = y + *extra;
    return {y * factor, {y.sum(-1), x * 2}};
  }
  at::Tensor w, scale;
  Unit<BlockImpl> inner;
};

struct EmptyImpl : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return torch::relu(x) + x; }
};

struct ModelImpl : nn::Module {
  ModelImpl() {
    torch::manual_seed(1);
    embedding = register_module("embedding", nn::Embedding(11, 8));
    first = register_module("first", Unit<BlockImpl>(8));
    outer = register_module("outer", Unit<OuterImpl>(8));
    unused = register_module("unused", Unit<BlockImpl>(8));
    empty = register_module("empty", Unit<EmptyImpl>::make());
    // first.a.weight again: owned by the root.
    tied = register_parameter("tied", first->a->weight);
    transposed = register_parameter("transposed", torch::randn({4, 8}).t());
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = first(embedding(tokens));
    auto [y, more] = outer(x, std::optional<at::Tensor>(x * 0.1), 1.5);
    y = first(empty(y)) + more[1];  // `first` a second time
    return torch::matmul(torch::matmul(y, transposed).mean(-1).pow(2),
                         torch::ones({y.size(1)}))
               .sum() +
           torch::matmul(y, tied.t()).pow(2).mean() + more[0].pow(2).mean();
  }
  nn::Embedding embedding{nullptr};
  Unit<BlockImpl> first, unused;
  Unit<OuterImpl> outer;
  Unit<EmptyImpl> empty;
  at::Tensor tied, transposed;
};

// Ranks are threads, and torch's generator is one for all: models are made one at a time.
std::shared_ptr<ModelImpl> make_model() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return std::make_shared<ModelImpl>();
}

// Within the rounding of sums whose terms cancel: relative to the largest element.
void expect_near(const at::Tensor& value, const at::Tensor& expected,
                 const std::string& fqn) {
  const double largest = expected.abs().max().item<double>();
  EXPECT_LE((value - expected).abs().max().item<double>(), 1e-5 * largest + 1e-7) << fqn;
}

std::map<std::string, at::Tensor> plain_gradients(const at::Tensor& tokens,
                                                  double* loss_value = nullptr) {
  auto model = make_model();
  const at::Tensor loss = model->forward(tokens);
  loss.backward();
  if (loss_value) *loss_value = loss.item<double>();
  std::map<std::string, at::Tensor> grads;
  for (const auto& item : model->named_parameters()) {
    grads[item.key()] = item.value().grad().defined() ? item.value().grad()
                                                      : torch::zeros_like(item.value());
  }
  return grads;
}

class UnitTest : public ::testing::TestWithParam<std::tuple<int, Recompute>> {
 protected:
  UnitTest() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.recompute = std::get<1>(GetParam());
    options.chaos_seed = 5;
    options.stream_always = true;
  }
  int ranks() const { return std::get<0>(GetParam()); }
  const at::Tensor tokens = torch::tensor({1, 5, 3, 1, 10, 0}, at::kLong).view({2, 3});
  Options options;
};

INSTANTIATE_TEST_SUITE_P(, UnitTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

TEST_P(UnitTest, GradientsEqualThoseOfThePlainModule) {
  const auto expected = plain_gradients(tokens);
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, tokens),
                    1);  // the same batch on every rank: the mean is the gradient
    for (const auto& [fqn, grad] : expected) {
      if (fqn == "tied") continue;
      expect_near(engine.full_gradient(fqn), grad, fqn);
    }
    EXPECT_TRUE(torch::equal(engine.full_gradient("tied"),
                             engine.full_gradient("first.a.weight")));
  });
}

TEST_P(UnitTest, TwoForwardsMayComeBeforeTwoBackwards) {
  const auto expected = plain_gradients(tokens);
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    Engine engine(model, options, std::move(comm));
    const at::Tensor one = engine.forward(model, tokens);
    const at::Tensor two = engine.forward(model, tokens);
    engine.backward(two, 1);
    { auto again = engine.forward(model, tokens); }  // a graph that is dropped
    engine.backward(one, 1);
    for (const std::string fqn :
         {"first.a.weight", "outer.inner.b.bias", "outer.w", "embedding.weight"}) {
      expect_near(engine.full_gradient(fqn), expected.at(fqn), fqn);
    }
  });
}

// All ranks' shards together are the plain module: its names in its order, the tied one
// under its first, and every element where it belongs, once.
TEST_P(UnitTest, ListsPlainNamesAndHoldsEveryElementOnce) {
  auto plain = make_model();
  std::vector<std::string> names;
  std::map<std::string, at::Tensor> seen, counts;
  for (const auto& item : plain->named_parameters()) {
    if (item.key() == "first.a.weight") continue;  // `tied` comes before it
    names.push_back(item.key());
    seen[item.key()] = torch::zeros({item.value().numel()});
    counts[item.key()] = torch::zeros({item.value().numel()});
  }
  std::mutex mutex;
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    Engine engine(model, options, std::move(comm));
    int64_t numel = 0;
    std::vector<std::string> listed;
    const std::lock_guard lock(mutex);
    for (const ShardView& view : engine.shards()) {
      listed.push_back(view.fqn);
      ASSERT_TRUE(seen.contains(view.fqn)) << view.fqn;
      const at::Tensor value = plain->named_parameters()[view.fqn];
      numel += value.numel();
      EXPECT_EQ(view.shape, value.sizes().vec()) << view.fqn;
      EXPECT_EQ(view.aliases, view.fqn == "tied"
                                  ? std::vector<std::string>{"first.a.weight"}
                                  : std::vector<std::string>())
          << view.fqn;
      for (size_t i = 0; i < view.master.size(); ++i) {
        const int64_t place = view.begin + static_cast<int64_t>(i);
        seen[view.fqn][place] = view.master[i];
        counts[view.fqn][place] += 1;
      }
    }
    EXPECT_EQ(listed, names);
    EXPECT_EQ(engine.num_parameters(), numel);
    EXPECT_EQ(engine.num_units(), 5) << "the empty one is none";
  });
  for (const std::string& name : names) {
    const at::Tensor value = plain->named_parameters()[name];
    EXPECT_TRUE(torch::equal(seen[name], value.detach().reshape({-1}))) << name;
    EXPECT_TRUE(counts[name].eq(1).all().item<bool>()) << name;
  }
}

TEST_P(UnitTest, FullParametersAreThoseOfRankZero) {
  auto plain = make_model();
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    if (comm->rank() != 0) {
      const torch::NoGradGuard no_grad;
      for (at::Tensor& p : model->parameters()) p.add_(1);
    }
    Engine engine(model, options, std::move(comm));
    for (const auto& item : plain->named_parameters()) {
      EXPECT_TRUE(torch::equal(engine.full_parameter(item.key()), item.value()))
          << item.key();
    }
    engine.set_full_parameter("outer.inner.a.bias", torch::arange(16).to(at::kFloat));
    EXPECT_TRUE(torch::equal(engine.full_parameter("outer.inner.a.bias"),
                             torch::arange(16).to(at::kFloat)));
    for (const std::string neighbour : {"outer.inner.a.weight", "outer.inner.b.weight"}) {
      EXPECT_TRUE(torch::equal(engine.full_parameter(neighbour),
                               plain->named_parameters()[neighbour]))
          << neighbour;
    }
    EXPECT_THROW(engine.set_full_parameter("outer.inner.a.bias", torch::zeros({3})),
                 Error);
    EXPECT_THROW(engine.full_parameter("outer.nobody"), Error);
    EXPECT_THROW(engine.local_shard("outer.nobody"), Error);
    const ShardView shard = engine.local_shard("outer.inner.a.bias");
    for (size_t i = 0; i < shard.master.size(); ++i) {
      EXPECT_EQ(shard.master[i],
                static_cast<float>(shard.begin + static_cast<int64_t>(i)));
    }
    EXPECT_EQ(engine.local_shard("tied").master.span().data(),
              engine.local_shard("first.a.weight").master.span().data());
  });
}

TEST_P(UnitTest, TouchingAReleasedParameterNamesIt) {
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    Engine engine(model, options, std::move(comm));
    const auto expect_named = [&](const std::string& fqn, const at::Tensor& param) {
      try {
        param.sum();
        FAIL() << fqn << " could be read";
      } catch (const std::exception& error) {
        EXPECT_THAT(error.what(), HasSubstr(fqn + " is released"));
      }
    };
    expect_named("outer.inner.a.weight", model->outer->inner->a->weight);
    const at::Tensor loss = engine.forward(model, tokens);
    expect_named("outer.inner.a.weight", model->outer->inner->a->weight);
    expect_named("first.b.bias", model->first->b->bias);
    engine.backward(loss, 1);
    expect_named("embedding.weight",
                 model->embedding->weight);  // the root unit, too, once backward is over
  });
}

TEST_P(UnitTest, FrozenParametersStayAndCostNothing) {
  auto plain = make_model();
  options.groups = {{"outer.*", 1, {}, true}, {"first.a.bias", 1, {}, true}};
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = make_model();
    Engine engine(model, options, std::move(comm));
    for (int step = 0; step < 3; ++step) {
      engine.backward(engine.forward(model, tokens), 1);
      engine.step();
    }
    for (const std::string fqn : {"outer.w", "outer.inner.a.weight", "first.a.bias"}) {
      EXPECT_TRUE(torch::equal(engine.full_parameter(fqn), plain->named_parameters()[fqn]))
          << fqn;
      EXPECT_THROW(engine.full_gradient(fqn), Error);
    }
    EXPECT_FALSE(
        torch::equal(engine.full_parameter("first.b.bias"), plain->first->b->bias));
    for (const ShardView& view : engine.shards()) {
      EXPECT_EQ(view.frozen, view.fqn.starts_with("outer") || view.fqn == "first.a.bias");
      EXPECT_EQ(view.state.size(), view.frozen ? 0 : 2);
      for (const StateView& state : view.state)
        EXPECT_EQ(state.values.size(), view.master.size());
    }
  });
}

TEST(UnitList, NamesStayWhenUnitsAreErased) {
  UnitList<BlockImpl> list(std::make_shared<UnitListImpl<BlockImpl>>());
  for (int i = 0; i < 3; ++i) list->push_back(Unit<BlockImpl>(4));
  list->erase("0");
  std::vector<std::string> names;
  for (const auto& item : list->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names.front(), "1.a.weight");
  EXPECT_EQ(names.back(), "2.b.bias");
  list->push_back(Unit<BlockImpl>(4));
  EXPECT_TRUE(list->contains("3"));
  EXPECT_EQ(list->size(), 3);
}

TEST(Unit, WithoutAnEngineIsAPlainModule) {
  torch::manual_seed(0);
  Unit<BlockImpl> unit(4);
  const at::Tensor x = torch::randn({2, 4});
  EXPECT_TRUE(torch::equal(unit(x), unit->forward(x)));
  EXPECT_THROW(Unit<BlockImpl>(std::make_shared<BlockImpl>(4)), c10::Error);
}

TEST(Unit, BelongsToOneEngineAtATime) {
  auto model = make_model();
  Options options;
  options.device = DeviceChoice::kCpu;
  Engine engine(model, options, nullptr);
  EXPECT_THROW(Engine(model, options, nullptr), Error);
  EXPECT_NO_THROW(engine.forward(model, torch::ones({1, 2}, at::kLong)));
}

// Whoever outlives the engine is told so: graphs, calls of units, parameters.
TEST(Unit, SurvivesItsEngineWithAClearError) {
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    auto model = make_model();
    const at::Tensor tokens = torch::ones({1, 2}, at::kLong);
    at::Tensor loss;
    {
      Options options;
      options.device = DeviceChoice::kCpu;
      options.recompute = recompute;
      Engine engine(model, options, nullptr);
      loss = engine.forward(model, tokens);
    }
    const auto expect_told = [&](auto call, const std::string& text) {
      try {
        call();
        ADD_FAILURE() << "nobody complained";
      } catch (const std::exception& error) {
        EXPECT_THAT(error.what(), HasSubstr(text));
      }
    };
    expect_told([&] { loss.backward(); }, "the zero::Engine of this parameter is gone");
    expect_told(
        [&] {
          model->unused(torch::ones({2, 8})).sum().backward();
        },
        "unused.a.bias: the zero::Engine");
    expect_told([&] { model->embedding->weight.sum(); },
                "embedding.weight: the zero::Engine of this parameter is gone");
    expect_told([&] { model->first->b->bias.sum(); },
                "first.b.bias: the zero::Engine of this parameter is gone");
    EXPECT_TRUE(torch::equal(model->empty(torch::ones({2})), torch::full({2}, 2)))
        << "without an engine a call is a plain one";
  }
}

}  // namespace
}  // namespace zero::testing::unit_test
