// Units of models whose classes know nothing of zero: the bits of zero::Unit and of plain
// LibTorch, what a policy chooses, and refusals.
#include "zero/wrap.h"

#include <sstream>

#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"

namespace zero::testing::wrap_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl() {
    up = register_module("up", nn::Linear(8, 16));
    drop = register_module("drop", nn::Dropout(0.25));
    down = register_module("down", nn::Linear(16, 8));
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(drop(torch::gelu(up(x)))); }
  nn::Linear up = nullptr, down = nullptr;
  nn::Dropout drop = nullptr;
};
TORCH_MODULE(Block);

constexpr int kLayers = 4;

struct SequentialNetImpl : nn::Module {
  SequentialNetImpl() {
    for (int i = 0; i < kLayers; ++i) blocks->push_back(Block());
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(blocks->forward(x)).to(at::kFloat).square().sum();
  }
  nn::Sequential blocks;
  nn::Linear head = nullptr;
};
struct ListNetImpl : nn::Module {
  ListNetImpl() {
    for (int i = 0; i < kLayers; ++i) blocks->push_back(Block());
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(8, 3));
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& block : units_of<BlockImpl>(blocks)) x = block(x);
    return head(x).to(at::kFloat).square().sum();
  }
  nn::ModuleList blocks;
  nn::Linear head = nullptr;
};
struct UnitNetImpl : nn::Module {
  UnitNetImpl() {
    for (int i = 0; i < kLayers; ++i) blocks->push_back(Unit<BlockImpl>::make());
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(8, 3));
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& block : *blocks) x = block.value()(x);
    return head(x).to(at::kFloat).square().sum();
  }
  UnitList<BlockImpl> blocks{std::make_shared<UnitListImpl<BlockImpl>>()};
  nn::Linear head = nullptr;
};

template <class Net>
std::shared_ptr<Net> filled() {
  const auto net = std::make_shared<Net>();
  const torch::NoGradGuard no_grad;
  double low = -0.3;
  for (at::Tensor param : net->parameters())
    param.copy_(values(param.sizes().vec(), low -= 0.01, 0.4));
  return net;
}
template <class Net>
std::shared_ptr<Net> wrapped() {
  const auto net = filled<Net>();
  wrap(net, {.types = {"BlockImpl"}});
  return net;
}

Options usual_options() {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  options.schedule.lr = 0.05;
  return options;
}

struct Numbers {
  std::vector<float> losses;
  std::vector<at::Tensor> params;
  int64_t num_gathers = 0;
};

// Of rank 0, after three steps with data of each rank's own.
template <class Net>
Numbers numbers_of(int ranks, const Options& options, std::shared_ptr<Net> (*make)()) {
  Numbers numbers;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    const auto net = make();
    net->train(ranks == 1);  // threads share the generator that dropout draws from
    Engine engine(net, options, std::move(comm));
    Numbers own;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor loss = engine.forward(net, values({4, 8}, -1 - engine.rank()));
      own.losses.push_back(loss.item<float>());
      engine.backward(loss, 4);
      engine.step();
    }
    for (const auto& item : net->named_parameters())
      own.params.push_back(engine.full_parameter(item.key()));
    own.num_gathers = engine.num_gathers();
    if (engine.rank() == 0) numbers = std::move(own);
  });
  return numbers;
}

void expect_equal(const Numbers& a, const Numbers& b) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.params.size(), b.params.size());
  for (size_t i = 0; i < a.params.size(); ++i)
    EXPECT_TRUE(a.params[i].equal(b.params[i]));
  EXPECT_EQ(a.num_gathers, b.num_gathers);
}

void expect_bits_of_units(int ranks, const Options& options) {
  const Numbers expected = numbers_of(ranks, options, filled<UnitNetImpl>);
  expect_equal(numbers_of(ranks, options, wrapped<SequentialNetImpl>), expected);
  expect_equal(numbers_of(ranks, options, wrapped<ListNetImpl>), expected);
}

TEST(Wrap, GivesTheBitsOfUnits) {
  for (const int ranks : {1, 2}) {
    for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
      Options options = usual_options();
      options.recompute = recompute;
      expect_bits_of_units(ranks, options);
      options.dtype = DType::kBf16;
      expect_bits_of_units(ranks, options);
    }
  }
}

TEST(Wrap, WorksThroughABatchInMicroBatches) {
  Options options = usual_options();
  options.accumulate = Accumulate::kUnit;
  options.micro_batch = 2;
  expect_bits_of_units(2, options);
}

template <class Net>
std::shared_ptr<Net> deferred() {
  const DeferredInit guard;
  const auto net = std::make_shared<Net>();
  if constexpr (!std::is_same_v<Net, UnitNetImpl>) wrap(net, {.types = {"BlockImpl"}});
  return net;
}

TEST(Wrap, StartsFromDeferredValues) {
  const Options options = usual_options();
  const Numbers expected = numbers_of(2, options, deferred<UnitNetImpl>);
  expect_equal(numbers_of(2, options, deferred<SequentialNetImpl>), expected);
  expect_equal(numbers_of(2, options, deferred<ListNetImpl>), expected);
}

// In eval(), where nothing is drawn.
TEST(Wrap, GivesTheNumbersOfPlainLibTorch) {
  const auto plain = filled<SequentialNetImpl>();
  const auto net = wrapped<SequentialNetImpl>();
  plain->eval();
  net->eval();
  const at::Tensor x = values({4, 8});
  const at::Tensor expected = plain->forward(x);
  expected.backward();
  EXPECT_TRUE(net->forward(x).equal(expected)) << "without an engine";
  Engine engine(net, usual_options(), make_one_rank());
  EXPECT_EQ(engine.num_units(), kLayers + 1);
  const at::Tensor loss = engine.forward(net, x);
  EXPECT_TRUE(loss.detach().equal(expected.detach()));
  engine.backward(loss, 1);
  for (const auto& item : plain->named_parameters())
    EXPECT_TRUE(engine.full_gradient(item.key()).equal(item.value().grad()))
        << item.key();
}

std::vector<std::string> names_of(nn::Module& module) {
  return module.named_parameters().keys();
}

TEST(Wrap, LeavesNamesParametersAndStateAlone) {
  const auto net = filled<SequentialNetImpl>();
  const std::vector<std::string> names = names_of(*net);
  const std::vector<at::Tensor> params = net->parameters();
  wrap(net, {.types = {"BlockImpl"}});
  EXPECT_EQ(names_of(*net), names);
  for (size_t i = 0; i < params.size(); ++i)
    EXPECT_TRUE(net->parameters()[i].is_same(params[i]));
  EXPECT_EQ((*net->blocks)[1]->as<BlockImpl>()->up->options.in_features(), 8);

  net->eval();
  EXPECT_FALSE((*net->blocks)[3]->is_training());
  net->to(at::kDouble);
  EXPECT_EQ(net->parameters()[0].scalar_type(), at::kDouble);
  net->to(at::kFloat);
  std::stringstream file;
  torch::serialize::OutputArchive out;
  net->save(out);
  out.save_to(file);
  const auto plain = std::make_shared<SequentialNetImpl>();
  torch::serialize::InputArchive in;
  in.load_from(file);
  plain->load(in);
  plain->eval();
  EXPECT_TRUE(plain->forward(values({4, 8})).equal(net->forward(values({4, 8}))));
}

TEST(Wrap, ACloneIsWrappedAnewAndOnItsOwn) {
  nn::Sequential blocks(nn::Linear(4, 4), nn::Linear(4, 2));
  wrap(blocks, {.types = {"LinearImpl"}});
  const auto copy = std::dynamic_pointer_cast<nn::SequentialImpl>(blocks->clone());
  Engine engine(copy, usual_options(), make_one_rank());
  EXPECT_EQ(engine.num_units(), 2);
  const at::Tensor x = values({3, 4});
  EXPECT_TRUE(engine.forward(copy, x).equal(blocks.ptr()->forward(x)));
  EXPECT_EQ(hook_of(*(*blocks.ptr())[0])->runner, nullptr);
}

// --- what a policy chooses

// net: stem, body (Sequential of one that holds a Sequential), and a list.
struct InnerImpl : nn::Module {
  InnerImpl() {
    inner = register_module(
        "inner", nn::Sequential(nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 2)));
    own = register_module("own", nn::Linear(2, 8));
  }
  at::Tensor forward(const at::Tensor& x) { return own(inner->forward(x)); }
  nn::Sequential inner = nullptr;
  nn::Linear own = nullptr;
};
struct TreeImpl : nn::Module {
  TreeImpl() {
    stem = register_module("stem", nn::Linear(8, 8));
    body->push_back("first", std::make_shared<InnerImpl>());
    body->push_back("second", nn::Linear(8, 8));
    list->push_back(nn::Linear(8, 8));
    register_module("body", body);
    register_module("list", list);
  }
  at::Tensor forward(at::Tensor x) {
    x = body->forward(stem(x));
    for (auto& entry : units_of<nn::LinearImpl>(list)) x = entry(x);
    return x.square().sum();
  }
  nn::Linear stem = nullptr;
  nn::Sequential body;
  nn::ModuleList list;
};

TEST(WrapPolicy, NamesChooseTheOutermostEntries) {
  const auto of = [&](const WrapPolicy& policy) {
    const auto tree = std::make_shared<TreeImpl>();
    return wrap(tree, policy);
  };
  EXPECT_THAT(of({.names = {"body.*"}}), ElementsAre("body.first", "body.second"));
  EXPECT_THAT(of({.names = {"*.0"}}), ElementsAre("body.first.inner.0", "list.0"));
  EXPECT_THAT(of({.names = {"list.0", "body.first", "*.inner.2"}}),
              ElementsAre("body.first", "body.first.inner.2", "list.0"));
  EXPECT_THAT(of({.types = {"LinearImpl"}, .names = {"body.*"}}),
              ElementsAre("body.first.inner.0", "body.first.inner.2", "body.second"));
}

TEST(WrapPolicy, TypesChooseAllOfAClass) {
  const auto tree = std::make_shared<TreeImpl>();
  EXPECT_THAT(wrap(tree, {.types = {"InnerImpl", "ReLUImpl"}}),
              ElementsAre("body.first", "body.first.inner.1"));
}

// inner.0 has 72 parameters, inner.2 18, own 24, the others 72.
TEST(WrapPolicy, SizeChoosesTheSmallestThatAreLargeEnough) {
  const auto of = [&](int64_t min_numel) {
    const auto tree = std::make_shared<TreeImpl>();
    return wrap(tree, {.min_numel = min_numel});
  };
  EXPECT_THAT(of(72), ElementsAre("body.first.inner.0", "body.second", "list.0"));
  EXPECT_THAT(of(42),
              ElementsAre("body.first", "body.first.inner.0", "body.second", "list.0"));
  EXPECT_THAT(of(73), ElementsAre("body.first"));
}

TEST(WrapPolicy, NestedUnitsGiveTheSameNumbers) {
  const auto make = [] { return filled<TreeImpl>(); };
  const auto plain = make();
  const auto tree = make();
  wrap(tree, {.min_numel = 18});
  const at::Tensor expected = plain->forward(values({4, 8}));
  expected.backward();
  Engine engine(tree, usual_options(), make_one_rank());
  const at::Tensor loss = engine.forward(tree, values({4, 8}));
  EXPECT_TRUE(loss.detach().equal(expected.detach()));
  engine.backward(loss, 1);
  for (const auto& item : plain->named_parameters())
    EXPECT_TRUE(engine.full_gradient(item.key()).equal(item.value().grad()))
        << item.key();
}

// An entry of two Sequentials is one unit.
TEST(WrapPolicy, AModuleInTwoPlacesIsOneUnit) {
  const nn::Linear shared(4, 4);
  struct TwiceImpl : nn::Module {
    explicit TwiceImpl(const nn::Linear& layer) {
      a = register_module("a", nn::Sequential(layer, nn::Tanh()));
      b = register_module("b", nn::Sequential(nn::Sigmoid(), layer));
    }
    at::Tensor forward(const at::Tensor& x) {
      return b->forward(a->forward(x)).square().sum();
    }
    nn::Sequential a = nullptr, b = nullptr;
  };
  const auto twice = std::make_shared<TwiceImpl>(shared);
  EXPECT_THAT(wrap(twice, {.names = {"*"}, .min_numel = 1}), ElementsAre("a.0"));
  const at::Tensor plain = twice->forward(values({2, 4}));
  plain.backward();
  const at::Tensor expected = shared->weight.grad().clone();
  shared->weight.mutable_grad().reset();
  shared->bias.mutable_grad().reset();
  Engine engine(twice, usual_options(), make_one_rank());
  const at::Tensor loss = engine.forward(twice, values({2, 4}));
  EXPECT_TRUE(loss.detach().equal(plain.detach()));
  engine.backward(loss, 1);
  expect_near(engine.full_gradient("a.0.weight"), expected);
}

// --- what goes in and out

struct SplitImpl : nn::Module {
  SplitImpl() { w = register_parameter("w", values({4, 4})); }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, double scale,
                                             std::optional<at::Tensor> shift) {
    return {x.matmul(w), *shift * scale};
  }
  at::Tensor w;
};
struct JoinImpl : nn::Module {
  JoinImpl() { w = register_parameter("w", values({4, 4}, 0.5)); }
  at::Tensor forward(std::tuple<at::Tensor, at::Tensor> both) {
    return (std::get<0>(both).matmul(w) + std::get<1>(both)).square().sum();
  }
  at::Tensor w;
};

TEST(WrapContract, EntriesTakeAndReturnTuplesAndNumbers) {
  const auto make = [] {
    return std::make_shared<nn::SequentialImpl>(std::make_shared<SplitImpl>(),
                                                std::make_shared<JoinImpl>());
  };
  const auto plain = make();
  const at::Tensor plain_x = values({2, 4}).requires_grad_();
  const at::Tensor expected = plain->forward(plain_x, 2.0, std::optional(plain_x.sin()));
  expected.backward();
  const auto net = make();
  wrap(net, {.names = {"*"}});
  Engine engine(net, usual_options(), make_one_rank());
  const at::Tensor x = values({2, 4}).requires_grad_();
  const at::Tensor loss = engine.forward(net, x, 2.0, std::optional(x.sin()));
  EXPECT_TRUE(loss.detach().equal(expected.detach()));
  engine.backward(loss, 1);
  EXPECT_TRUE(x.grad().equal(plain_x.grad()));
  for (const auto& item : plain->named_parameters())
    EXPECT_TRUE(engine.full_gradient(item.key()).equal(item.value().grad()));
}

struct Opaque {
  at::Tensor hidden;
};
struct TakesOpaqueImpl : nn::Module {
  TakesOpaqueImpl() { w = register_parameter("w", values({4})); }
  at::Tensor forward(Opaque value) { return value.hidden * w; }
  at::Tensor w;
};
struct ReturnsOpaqueImpl : nn::Module {
  ReturnsOpaqueImpl() { w = register_parameter("w", values({4})); }
  Opaque forward(const at::Tensor& x) { return {x * w}; }
  at::Tensor w;
};

TEST(WrapRefusals, WhatTheEngineCannotSeeIsNamedInTheCall) {
  for (const bool takes : {true, false}) {
    const auto net = std::make_shared<nn::SequentialImpl>(
        std::make_shared<ReturnsOpaqueImpl>(), std::make_shared<TakesOpaqueImpl>());
    const std::string fqn = takes ? "1" : "0";
    wrap(net, {.names = {fqn}});
    EXPECT_TRUE(net->forward(values({4})).defined()) << "without an engine";
    Engine engine(net, usual_options(), make_one_rank());
    const std::string error = error_of([&] { engine.forward(net, values({4})); });
    EXPECT_THAT(error, HasSubstr(takes ? "a unit takes a " : "a unit returns a "));
    EXPECT_THAT(error, HasSubstr("Opaque"));
    EXPECT_THAT(error, HasSubstr("where: " + fqn));
  }
}

std::string refused(const WrapPolicy& policy) {
  const auto tree = std::make_shared<TreeImpl>();
  return error_of([&] { wrap(tree, policy); });
}

TEST(WrapRefusals, AModuleThatItsOwnerCallsIsNamedWithTheReason) {
  const std::string error = refused({.types = {"LinearImpl"}});
  EXPECT_THAT(error, HasSubstr("stem (LinearImpl): its owner, the model (TreeImpl), "
                               "calls it itself"));
  EXPECT_THAT(error, HasSubstr("body.first.own (LinearImpl): its owner, body.first "
                               "(InnerImpl), calls it itself"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("body.second")));
  EXPECT_THAT(refused({.names = {"stem"}}), HasSubstr("stem (LinearImpl): its owner"));
  EXPECT_THAT(refused({.names = {"ste*"}}),
              HasSubstr("'ste*' matches no entry that can be a unit: stem cannot"));
}

TEST(WrapRefusals, WhatMakesNoUnitIsAnError) {
  EXPECT_THAT(refused({}), HasSubstr("a policy that says nothing"));
  EXPECT_THAT(refused({.min_numel = 1000}), HasSubstr("the policy makes no unit"));
  EXPECT_THAT(refused({.types = {"NoImpl", "InnerImpl"}}),
              HasSubstr("no module is a NoImpl"));
  EXPECT_THAT(refused({.names = {"body.*", "tail.*"}}),
              HasSubstr("'tail.*' matches no entry that can be a unit"));
}

TEST(WrapRefusals, AUnitIsNotWrappedAgain) {
  const auto net = filled<UnitNetImpl>();
  EXPECT_THAT(error_of([&] { wrap(net, {.types = {"BlockImpl"}}); }),
              HasSubstr("blocks.0 (BlockImpl): it is a unit already"));
  const auto tree = std::make_shared<TreeImpl>();
  wrap(tree, {.names = {"body.*"}});
  EXPECT_THAT(error_of([&] { wrap(tree, {.types = {"InnerImpl"}}); }),
              HasSubstr("body.first (InnerImpl): it is a unit already"));
  EXPECT_THAT(wrap(tree, {.min_numel = 72}), ElementsAre("body.first.inner.0", "list.0"));
}

TEST(WrapRefusals, AModelOfAnEngineComesTooLate) {
  const auto tree = std::make_shared<TreeImpl>();
  const Engine engine(tree, usual_options(), make_one_rank());
  EXPECT_THAT(error_of([&] { wrap(tree, {.min_numel = 1}); }),
              HasSubstr("a module that belongs to a zero::Engine cannot be wrapped"));
}

// Its weights are not there, or its gradient would be lost: no silent wrong number.
TEST(WrapRefusals, AListThatIsCalledWithoutUnitsOfIsNamed) {
  struct PastImpl : ListNetImpl {
    at::Tensor forward(at::Tensor x) {
      for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
      return head(x).square().sum();
    }
  };
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](std::unique_ptr<Ranks> comm) {
      const auto net = std::make_shared<PastImpl>();
      wrap(net, {.types = {"BlockImpl"}});
      Engine engine(net, usual_options(), std::move(comm));
      EXPECT_ANY_THROW({
        const at::Tensor loss = engine.forward(net, values({4, 8}));
        engine.backward(loss, 4);
      });
    });
  }
}

TEST(WrapRefusals, AnEntryOfAnotherClassIsNoUnitOfTheList) {
  nn::ModuleList list(nn::Linear(2, 2), nn::ReLU());
  EXPECT_THAT(error_of([&] { units_of<nn::LinearImpl>(list); }),
              HasSubstr("entry 1 is a ReLUImpl, no torch::nn::LinearImpl"));
}

}  // namespace
}  // namespace zero::testing::wrap_test
