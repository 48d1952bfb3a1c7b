// Which units are recomputed, and that it changes no bit.
#include "tests/engine/small_models.h"

namespace zero::testing::recompute_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CountsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    ++runs;
    return x * w;
  }
  int runs = 0;
};

// No leaf: it holds one.
struct OuterImpl : ScaleImpl {
  OuterImpl() { inner = register_module("inner", Unit<CountsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) {
    ++runs;
    return inner(x) + w;
  }
  Unit<CountsImpl> inner{nullptr};
  int runs = 0;
};

// Leaves 0, 1, 2, the one in `outer`, and 4.
struct LeavesImpl : torch::nn::Module {
  LeavesImpl() {
    for (int i = 0; i < 3; ++i) units->push_back(Unit<CountsImpl>::make());
    register_module("units", units);
    outer = register_module("outer", Unit<OuterImpl>::make());
    last = register_module("last", Unit<CountsImpl>::make());
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x).sin();
    return last(outer(x)).pow(2).sum();
  }
  std::vector<int> runs() {
    std::vector<int> runs;
    for (auto& unit : *units) runs.push_back(unit.value()->runs);
    runs.insert(runs.end(), {outer->inner->runs, outer->runs, last->runs});
    return runs;
  }
  UnitList<CountsImpl> units{std::make_shared<UnitListImpl<CountsImpl>>()};
  Unit<OuterImpl> outer{nullptr};
  Unit<CountsImpl> last{nullptr};
};

// A graph between two that are made again.
struct KeptImpl : CountsImpl {
  static constexpr bool kKeepsGraph = true;
};
struct KeptBetweenImpl : torch::nn::Module {
  KeptBetweenImpl() {
    units->push_back(Unit<CountsImpl>::make());
    units->push_back(
        Unit<CountsImpl>(std::shared_ptr<CountsImpl>(Unit<KeptImpl>::make().ptr())));
    units->push_back(Unit<CountsImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x).sin();
    return x.sum();
  }
  UnitList<CountsImpl> units{std::make_shared<UnitListImpl<CountsImpl>>()};
};

std::vector<int> runs_around_a_kept_one(Recompute recompute, Accumulate accumulate) {
  Options options;
  options.adam_threads = 1;
  options.device = DeviceChoice::kCpu;
  options.recompute = recompute;
  options.accumulate = accumulate;
  options.micro_batch = accumulate == Accumulate::kUnit ? 4 : 0;
  auto model = std::make_shared<KeptBetweenImpl>();
  Engine engine(model, options);
  engine.backward(engine.forward(model, values({4, 3})), 1);
  std::vector<int> runs;
  for (auto& unit : *model->units) runs.push_back(unit.value()->runs);
  return runs;
}

std::vector<int> runs_with(Recompute recompute, int ranks = 1) {
  Options options;
  options.adam_threads = 1;
  options.device = DeviceChoice::kCpu;
  options.recompute = recompute;
  std::vector<int> runs;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<LeavesImpl>();
    Engine engine(model, options, std::move(comm));
    engine.backward(engine.forward(model, values({4, 3})), 1);
    if (engine.rank() == 0) runs = model->runs();
  });
  return runs;
}

TEST(Recomputation, TheFirstLeafAndEachKthAfterItRunTwice) {
  EXPECT_THAT(runs_with(Recompute::kUnit), ElementsAre(2, 2, 2, 2, 1, 2));
  EXPECT_THAT(runs_with({.every = 1}), ElementsAre(2, 2, 2, 2, 1, 2));
  EXPECT_THAT(runs_with(Recompute::kNone), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(runs_with({.every = 2}), ElementsAre(2, 1, 2, 1, 1, 2));
  EXPECT_THAT(runs_with({.every = 3}), ElementsAre(2, 1, 1, 2, 1, 1));
  EXPECT_THAT(runs_with({.every = 4}), ElementsAre(2, 1, 1, 1, 1, 2));
  EXPECT_THAT(runs_with({.every = 5}), ElementsAre(2, 1, 1, 1, 1, 1));
  EXPECT_THAT(runs_with({.every = 2}, /*ranks=*/2), ElementsAre(2, 1, 2, 1, 1, 2));
}

TEST(Recomputation, ABlockMayAskThatItsGraphIsKept) {
  const auto runs = [](Recompute recompute) {
    return runs_around_a_kept_one(recompute, Accumulate::kModel);
  };
  EXPECT_THAT(runs(Recompute::kUnit), ElementsAre(2, 1, 2));
  EXPECT_THAT(runs({.every = 2}), ElementsAre(2, 1, 1));
  EXPECT_THAT(runs(Recompute::kNone), ElementsAre(1, 1, 1));
  // The graphs of all micro-batches at once would be too much.
  EXPECT_THAT(runs_around_a_kept_one(Recompute::kUnit, Accumulate::kUnit),
              ElementsAre(2, 2, 2));
}

TEST(Recomputation, SomeUnitsAllOrNoneGiveTheSameBits) {
  Work work;
  work.steps = 3;
  work.micro_batches = 4;
  Gpt2Config config = small_gpt2();
  config.n_layer = 5;
  for (const int ranks : {1, 2, 4}) {
    config.dropout = ranks == 1 ? 0.1 : 0;  // threads share torch's generator
    Options options = small_options(work);
    const Trained all = train(ranks, options, work, {}, config);
    for (const int64_t every : {0, 2, 3, 9}) {
      options.recompute.every = every;
      options.chaos_seed = every;
      expect_same(train(ranks, options, work, {}, config), all);
    }
  }
}

TEST(Recomputation, AChoiceThatIsNoneIsRefused) {
  EXPECT_THAT(error_of([] { runs_with({.every = -1}); }),
              HasSubstr("recompute.every is -1"));
}

TEST(Recomputation, TheHostsInputsAreInItsMemoryAlready) {
  Options options;
  options.adam_threads = 1;
  options.device = DeviceChoice::kCpu;
  options.offload_activations = true;
  auto model = std::make_shared<LeavesImpl>();
  const auto refused = HasSubstr("offload_activations is for a GPU");
  EXPECT_THAT(error_of([&] { plan(*model, options, 1); }), refused);
  EXPECT_THAT(error_of([&] { Engine(model, options); }), refused);
  options.inference = true;  // nothing is kept where no backward comes
  EXPECT_EQ(Engine(model, options).offloaded_activations().pinned, 0);
}

}  // namespace
}  // namespace zero::testing::recompute_test
