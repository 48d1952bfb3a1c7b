// First values of shapes, layouts and names that are easy to get wrong, whoever makes
// them, on any number of ranks.
#include <unistd.h>

#include <filesystem>

#include "checkpoint/reader.h"
#include "engine/device/host_device.h"
#include "engine/init/fill_shards.h"
#include "engine/plan/memory_plan.h"
#include "tests/engine/first_values.h"
#include "tests/engine/unit_contract.h"
#include "zero/save_load.h"

namespace zero::testing::init_cases_test {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Who makes first values: a function, what a constructor computes or draws, a rule.
enum class Way { kFunction, kComputes, kDraws, kRule };

// Another number in each element.
at::Tensor numbers(c10::IntArrayRef shape) {
  return values(shape.vec(), -1 - static_cast<double>(shape.size()));
}

struct PartImpl : nn::Module {
  // Only constructors that are asked to set anything.
  void add(const std::string& name, const at::Tensor& unset, Way way) {
    const torch::NoGradGuard no_grad;
    at::Tensor param = register_parameter(name, unset);
    if (way == Way::kComputes) param.copy_(numbers(param.sizes()));
    if (way == Way::kDraws) param.normal_(1, 2);
  }
  // Each element has gradient x.
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor sum = x * 0;
    for (const at::Tensor& param : parameters(/*recurse=*/false))
      sum = sum + (x * param).sum();
    return sum;
  }
};

// No multiples of 2, 3 or 4, nor of what shards are aligned to.
struct OddImpl : PartImpl {
  explicit OddImpl(Way way) {
    add("matrix", torch::empty({7, 29}), way);
    add("fifteen", torch::empty({15}), way);
    add("none", torch::empty({0, 4}), way);
  }
};

// As shards do not have them.
struct LaidOutImpl : PartImpl {
  explicit LaidOutImpl(Way way) {
    add("turned", torch::empty({6, 14}).t(), way);
    add("columns", torch::empty({9, 10}).slice(1, 3, 8), way);
    add("half", torch::empty({5}, at::kBFloat16), way);
  }
};

struct CasesImpl : PartImpl {
  explicit CasesImpl(Way way) : CasesImpl(way, way) {}
  CasesImpl(Way way, Way of_odd) {
    add("eight", torch::empty({8}), way);
    add("three", torch::empty({3}), way);
    add("one", torch::empty({1}), way);
    add("scalar", torch::empty({}), way);
    odd = register_module("odd", Unit<OddImpl>(of_odd));
    laid_out = register_module("laid_out", Unit<LaidOutImpl>(way));
  }
  at::Tensor forward(const at::Tensor& x) {
    return PartImpl::forward(x) + odd(x) + laid_out(x);
  }
  Unit<OddImpl> odd{nullptr};
  Unit<LaidOutImpl> laid_out{nullptr};
};

InitDone set_numbers(const InitCall& call) {
  for (at::Tensor& param : call.module.parameters(/*recurse=*/false))
    param.copy_(numbers(param.sizes()));
  return InitDone::kAll;
}

class InitCases : public ::testing::TestWithParam<std::tuple<Way, int>> {
 protected:
  InitCases() {
    options.seed = 11;
    options.optimizer = {.kind = Optimizer::kSgd, .weight_decay = 0, .momentum = 0.5};
    options.schedule.lr = 0.5;
    if (way() == Way::kFunction) options.param_init = set_numbers;
    if (way() == Way::kRule) options.init = {{"*", normal(1, 2)}};
    fs::remove_all(run);
  }
  ~InitCases() override { fs::remove_all(run); }

  Way way() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::shared_ptr<CasesImpl> make() const { return deferred<CasesImpl>(way()); }

  // What the elements are, by another road than shards.
  at::Tensor expected(const std::string& fqn, const at::Tensor& param) const {
    if (way() == Way::kFunction || way() == Way::kComputes)
      return numbers(param.sizes()).to(param.scalar_type()).to(at::kFloat);
    at::Tensor drawn = torch::empty(param.sizes());
    fill(normal(1, 2), options.seed, fqn, 0,
         {drawn.data_ptr<float>(), static_cast<size_t>(drawn.numel())});
    return drawn;
  }
  // Constructors draw into what is no whole storage of floats by torch's own means.
  bool is_by_torch(const std::string& fqn) const {
    return way() == Way::kDraws && fqn.starts_with("laid_out.");
  }

  using Body = std::function<void(Engine&, std::shared_ptr<CasesImpl>&)>;
  void each_rank(const Body& body) const {
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      auto model = make();
      Engine engine(model, options, std::move(comm));
      body(engine, model);
    });
  }
  static void train_step(Engine& engine, std::shared_ptr<CasesImpl>& model) {
    engine.backward(engine.forward(model, torch::ones({})), 1);
    EXPECT_FALSE(engine.step().skipped);
  }

  Options options = quiet_options();
  const std::string run = ::testing::TempDir() + "cases_" + std::to_string(getpid());
};

std::string name_of(const ::testing::TestParamInfo<InitCases::ParamType>& info) {
  const std::vector<std::string> ways = {"Function", "Computes", "Draws", "Rule"};
  const auto [way, ranks] = info.param;
  return ways.at(static_cast<size_t>(way)) + "On" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(, InitCases,
                         ::testing::Combine(::testing::Values(Way::kFunction,
                                                              Way::kComputes, Way::kDraws,
                                                              Way::kRule),
                                            ::testing::Values(1, 2, 3, 4)),
                         name_of);

TEST_P(InitCases, EachElementIsWhatItWouldBeUnsharded) {
  const auto none = [](Engine&) {};
  const auto started = full_values(
      ranks(), options, [&] { return make(); }, none);
  const auto alone = full_values(
      1, options, [&] { return make(); }, none);
  const auto model = make();
  ASSERT_EQ(started.size(), model->named_parameters().size());
  for (const auto& item : model->named_parameters()) {
    const at::Tensor value = is_by_torch(item.key()) ? alone.at(item.key())
                                                     : expected(item.key(), item.value());
    EXPECT_TRUE(torch::equal(started.at(item.key()), value)) << item.key();
  }
}

TEST_P(InitCases, SlicesTileTheModelInItsOrder) {
  Trained all;
  std::map<std::string, int64_t> num_held;
  each_rank([&](Engine& engine, auto&) {
    const auto names = make()->named_parameters().keys();
    std::vector<std::string> order;
    collect_shards(engine, all);
    for (int rank = 0; rank < engine.size(); ++rank) {
      if (rank == engine.rank()) {
        for (const ShardView& view : engine.shards())
          num_held[view.fqn] += view.master.size();
      }
      engine.control().barrier("turn");
    }
    for (const ShardView& view : engine.shards()) order.push_back(view.fqn);
    EXPECT_EQ(order, names);
  });
  for (const auto& item : make()->named_parameters()) {
    EXPECT_EQ(num_held[item.key()], item.value().numel()) << item.key();
    EXPECT_THAT(all.params[item.key()], Each(Not(::testing::IsNan()))) << item.key();
  }
}

TEST_P(InitCases, AStepChangesEachElementByItsGradient) {
  each_rank([&](Engine& engine, auto& model) {
    std::map<std::string, at::Tensor> before;
    for (const ShardView& view : engine.shards())
      before[view.fqn] = engine.full_parameter(view.fqn);
    train_step(engine, model);
    for (const auto& [fqn, value] : before)
      expect_near(engine.full_parameter(fqn), value - 0.5);
  });
}

TEST_P(InitCases, CheckpointsHoldTheElementsAndNoPadding) {
  std::map<std::string, at::Tensor> trained;
  std::string path;
  each_rank([&](Engine& engine, auto& model) {
    train_step(engine, model);
    SavedState state;
    state.step = 1;
    const std::string saved = save_checkpoint(engine, run, state);
    for (const ShardView& view : engine.shards()) {
      const at::Tensor full = engine.full_parameter(view.fqn);
      if (engine.rank() == 0) trained[view.fqn] = full;
    }
    if (engine.rank() == 0) path = saved;
  });
  checkpoint::Reader reader(path);
  for (const auto& [fqn, value] : trained) {
    const std::vector<char> bytes = reader.read_all(checkpoint::Kind::kParam, fqn);
    ASSERT_EQ(bytes.size(), value.nbytes()) << fqn;
    EXPECT_TRUE(std::ranges::equal(
        bytes, std::span(static_cast<const char*>(value.const_data_ptr()), bytes.size())))
        << fqn;
  }
}

TEST_P(InitCases, ASeedCheckpointHoldsThem) {
  Options from_seed = options;
  const std::string path = save_seed(*make(), options, run, {});
  from_seed.source = Source::kCheckpoint;
  from_seed.seed = 12;
  from_seed.init = {};
  from_seed.param_init = {};
  const auto started = full_values(
      1, options, [&] { return make(); }, [](Engine&) {});
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    Engine engine(make(), from_seed, std::move(comm));
    LoadOptions weights_alone;
    weights_alone.with_optimizer = false;
    load_checkpoint(engine, path, weights_alone);
    for (const auto& [fqn, value] : started)
      EXPECT_TRUE(torch::equal(engine.full_parameter(fqn), value)) << fqn;
  });
}

// Nothing says how what is outside of `odd` starts.
TEST_P(InitCases, WhatIsLeftOutIsListedOnEveryRank) {
  Options partly = options;
  if (way() == Way::kRule) partly.init = {{"odd.*", ones()}};
  if (way() == Way::kFunction) {
    partly.param_init = [](const InitCall& call) {
      return call.fqn == "odd" ? set_numbers(call) : InitDone::kLeftRest;
    };
  }
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    auto model = deferred<CasesImpl>(Way::kRule, way());
    EXPECT_THAT(error_of([&] { Engine(model, partly, std::move(comm)); }),
                AllOf(HasSubstr("eight, three, one, scalar, laid_out.turned, "
                                "laid_out.columns, laid_out.half"),
                      Not(HasSubstr("odd."))));
  });
}

// After an error in the middle of it, too.
TEST_P(InitCases, TheSameModelMayBeTriedAgain) {
  const auto alone = full_values(
      1, options, [&] { return make(); }, [](Engine&) {});
  Options broken = options;
  if (way() == Way::kFunction) {
    broken.param_init = [](const InitCall& call) {
      return call.fqn == "laid_out" ? InitDone::kAll : set_numbers(call);
    };
  } else {
    broken.init = {{"laid_out.half", constant(NAN)}};
    broken.init.insert(broken.init.end(), options.init.begin(), options.init.end());
  }
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const auto model = make();
    auto second = comm->duplicate();
    EXPECT_THAT(error_of([&] { Engine(model, broken, std::move(comm)); }),
                HasSubstr("laid_out.half"));
    Engine engine(model, options, std::move(second));
    for (const auto& [fqn, value] : alone)
      EXPECT_TRUE(torch::equal(engine.full_parameter(fqn), value)) << fqn;
  });
}

// --- beside the shards

// What is no element stays zero, which norms and sums over shards rely on.
TEST_P(InitCases, PaddingStaysZero) {
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const auto model = make();
    const ScannedModel scanned = scan_model(*model);
    name_deferred(scanned);
    const UnitPlan plan =
        make_unit_plan(scanned.units, scanned.params, options, comm->size());
    const auto device = make_host_device();
    ShardStore shards(plan, make_memory_plan(plan, options), *device, comm->rank());
    InitFunctions functions(scanned, options, /*are_called=*/true);
    ThreadPool threads(1);
    fill_shards(scanned, plan, options, shards, functions, *comm, threads);
    for (size_t part = 0; part < plan.parts.size(); ++part) {
      const FlatLayout& layout = plan.parts[part].layout;
      std::vector<float> all = shards[part].masters(0, layout.shard_numel).read_all();
      for (const ParamPiece& piece : pieces_of(layout, comm->rank()))
        std::fill_n(all.begin() + piece.shard_begin, piece.numel, 0.0f);
      EXPECT_THAT(all, Each(0.0f)) << plan.parts[part].tag;
    }
  });
}

struct LoneImpl : PartImpl {
  LoneImpl() { add("three", torch::empty({3}), Way::kComputes); }
};

TEST(InitCasesAlone, RanksThatOwnNothingTrain) {
  Options options = quiet_options();
  options.optimizer = {.kind = Optimizer::kSgd, .weight_decay = 0};
  options.schedule.lr = 0.5;
  on_ranks(4, [&](std::unique_ptr<Ranks> comm) {
    auto model = deferred<LoneImpl>();
    Engine engine(model, options, std::move(comm));
    EXPECT_EQ(engine.local_shard("three").master.size(), engine.rank() == 0 ? 3 : 0);
    engine.backward(engine.forward(model, torch::ones({})), 1);
    engine.step();
    expect_near(engine.full_parameter("three"), numbers({3}) - 0.5);
  });
}

struct LinearStepImpl : nn::Module {
  LinearStepImpl() { linear = register_module("linear", nn::Linear(3, 3)); }
  at::Tensor forward(const at::Tensor& x) { return linear(x).sum(); }
  nn::Linear linear{nullptr};
};

// d sum(W x + b) / dW is a row of x for each output; / db is 1.
TEST(InitCasesAlone, AStepOfALinearLayerIsTheClosedForm) {
  Options options = quiet_options();
  options.optimizer = {.kind = Optimizer::kSgd, .weight_decay = 0};
  options.schedule.lr = 0.25;
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      auto model = deferred<LinearStepImpl>();
      Engine engine(model, options, std::move(comm));
      const at::Tensor weight = engine.full_parameter("linear.weight"),
                       bias = engine.full_parameter("linear.bias");
      const at::Tensor x = values({3}) + engine.rank();
      engine.backward(engine.forward(model, x), 1);
      engine.step();
      const at::Tensor mean = values({3}) + (engine.size() - 1) / 2.0;
      expect_near(engine.full_parameter("linear.weight"), weight - 0.25 * mean);
      expect_near(engine.full_parameter("linear.bias"), bias - 0.25);
    });
  }
}

// --- names

struct NamedImpl : nn::Module {
  NamedImpl(const std::string& param, const std::string& buffer) {
    register_parameter(param, torch::ones({3}));
    register_buffer(buffer, torch::zeros({3}));
  }
};

TEST(InitCasesNames, ThatCheckpointsCannotHoldAreRefusedBeforeAnythingStarts) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"a/b", "a/b"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\xff\xfe", "\\xff\\xfe"},
      {std::string(1100, 'x'), std::string(64, 'x') + "..."},
      {"\x1b[31m", "\\x1b[31m"}};
  for (const auto& [name, shown] : names) {
    for (const int ranks : {1, 2}) {
      on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
        for (const auto& model :
             {deferred<NamedImpl>(name, "table"), deferred<NamedImpl>("w", name)}) {
          EXPECT_THAT(
              error_of([&] { Engine(model, quiet_options(), comm->duplicate()); }),
              AllOf(HasSubstr("cannot be saved"), HasSubstr("where: " + shown)));
        }
      });
    }
  }
  EXPECT_THAT(error_of([&] { Engine(deferred<NamedImpl>("w", "w"), quiet_options()); }),
              HasSubstr("a parameter and a buffer have the same name"));
}

TEST(InitCasesNames, OfAThousandBytesComeBackFromACheckpoint) {
  const std::string run = ::testing::TempDir() + "names_" + std::to_string(getpid());
  fs::remove_all(run);
  const std::string param(1000, 'p'), buffer(1000, 'b');
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Engine engine(deferred<NamedImpl>(param, buffer), quiet_options(), std::move(comm));
      engine.set_full_parameter(param, torch::full({3}, 2.0f));
      const std::string saved =
          save_checkpoint(engine, run, SavedState(), /*replace=*/true);
      engine.set_full_parameter(param, torch::zeros({3}));
      load_checkpoint(engine, saved);
      EXPECT_TRUE(torch::equal(engine.full_parameter(param), torch::full({3}, 2.0f)));
    });
  }
  fs::remove_all(run);
}

// --- ranks that differ

TEST(InitCasesRanks, WhereOthersHaveMemoryTheyAreToldSo) {
  for (const int poor : {0, 1}) {
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      const auto model =
          comm->rank() == poor ? deferred<LoneImpl>() : std::make_shared<LoneImpl>();
      EXPECT_THAT(error_of([&] { Engine(model, quiet_options(), std::move(comm)); },
                           ExitCode::kDiverged),
                  HasSubstr("which parameters zero::DeferredInit made (rank 1)"));
    });
  }
}

// --- buffers

struct TableImpl : PartImpl {
  TableImpl() {
    add("w", torch::empty({3}), Way::kComputes);
    table = register_buffer("table", torch::zeros({3}));
  }
  at::Tensor table;
};

TEST(InitCasesBuffers, ARefusalForgetsWhatAFunctionWrote) {
  const auto model = deferred<TableImpl>();
  Options options = quiet_options();
  options.param_init = [&](const InitCall&) {
    model->table.fill_(7);
    return InitDone::kAll;  // but w
  };
  EXPECT_THAT(error_of([&] { Engine(model, options); }), HasSubstr("w: 3 of 3"));
  EXPECT_TRUE(is_deferred(model->table));
  Engine engine(model, quiet_options());
  EXPECT_TRUE(torch::equal(model->table, torch::zeros({3})));
}

}  // namespace
}  // namespace zero::testing::init_cases_test
