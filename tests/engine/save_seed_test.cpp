#include <unistd.h>

#include <filesystem>

#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::save_seed_test {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Params = std::map<std::string, std::vector<float>>;

class SeedFolder : public ::testing::Test {
 protected:
  SeedFolder() { fs::remove_all(run); }
  ~SeedFolder() override { fs::remove_all(run); }
  const std::string run = ::testing::TempDir() + "seed_" + std::to_string(getpid());
};

class SaveSeed : public SeedFolder {
 protected:
  std::string seed() { return save_seed(*deferred_gpt2(config), options, run, {}); }
  Params params(
      int ranks, const Options& with,
      const std::function<void(Engine&)>& body = [](Engine&) {}) {
    Trained all;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Engine engine(deferred_gpt2(config), with, std::move(comm));
      body(engine);
      collect_shards(engine, all);
    });
    return all.params;
  }
  Gpt2Config config = small_gpt2();
  Options options = small_options({});
};

TEST_F(SaveSeed, ReportsWhatAnEngineReports) {
  config.vocab_size = 20000;  // its embedding is written in more than one part
  options.seed = 7;
  options.init = {{"*.ln_1.weight", normal(1, 0.5)}};
  options.init_report = true;
  std::vector<InitEntry> expected, report;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const bool is_first = comm->rank() == 0;
    const Engine engine(deferred_gpt2(config), options, std::move(comm));
    if (is_first) expected = engine.init_report();
  });
  save_seed(*deferred_gpt2(config), options, run, {}, /*replace=*/false, &report);
  ASSERT_EQ(report.size(), expected.size());
  for (size_t i = 0; i < report.size(); ++i) {
    const auto fields = [](const InitEntry& entry) {
      return std::tuple(entry.fqn, entry.is_buffer, entry.who, entry.distribution,
                        entry.numel, entry.mean, entry.std, entry.checksum);
    };
    EXPECT_EQ(fields(report[i]), fields(expected[i])) << expected[i].fqn;
  }
}

TEST_F(SaveSeed, LoadsOnAnyNumberOfRanksAsAStartWithoutIt) {
  config.vocab_size = 20000;  // its embedding is written in more than one part
  options.seed = 7;
  const std::string path = seed();
  const Params expected = params(1, options);
  Options later = options;
  later.seed = 8;
  later.source = Source::kCheckpoint;
  LoadOptions weights_alone;
  weights_alone.with_optimizer = false;
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(params(ranks, later,
                     [&](Engine& engine) {
                       const SavedState state =
                           load_checkpoint(engine, path, weights_alone);
                       EXPECT_EQ(state.step, 0);
                       EXPECT_TRUE(state.missing.empty() && state.extra.empty());
                     }),
              expected)
        << ranks;
  }
}

TEST_F(SaveSeed, IsACheckpointOfFormatAndHashes) {
  const std::string path =
      save_seed(*deferred_gpt2(config), options, run, {.position = R"({"batch":7})"});
  EXPECT_TRUE(checkpoint::verify(path).is_sound());
  checkpoint::Reader reader(path);
  EXPECT_EQ(reader.manifest().step, 0);
  EXPECT_EQ(reader.manifest().position, R"({"batch":7})");
  EXPECT_EQ(reader.manifest().aliases.at("lm_head.weight"), "transformer.wte.weight");
}

TEST_F(SaveSeed, WeightsAloneAreNoRunThatGoesOn) {
  const std::string path = seed();
  params(2, options, [&](Engine& engine) {
    EXPECT_THAT(error_of([&] { load_checkpoint(engine, path); }),
                HasSubstr("weights alone"));
  });
}

TEST_F(SaveSeed, APartThatNothingInitializesIsRefused) {
  struct LoneImpl : nn::Module {
    LoneImpl() { register_parameter("lone", torch::empty({3})); }
  };
  const DeferredInit guard;
  LoneImpl model;
  EXPECT_THAT(error_of([&] { save_seed(model, Options(), run, {}); }),
              HasSubstr("where: lone"));
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(SaveSeed, ValuesThatAreNotFiniteAreRefused) {
  for (const double value : {INFINITY, -INFINITY, NAN}) {
    options.init.insert(options.init.begin(), {"transformer.wpe.*", constant(value)});
    EXPECT_THAT(error_of([&] { seed(); }),
                AllOf(HasSubstr("not finite"), HasSubstr("transformer.wpe.weight")));
    EXPECT_TRUE(fs::is_empty(run));
  }
}

// ---- layers that come and go

struct BlockImpl : nn::Module {
  BlockImpl() { linear = register_module("linear", nn::Linear(8, 8)); }
  at::Tensor forward(const at::Tensor& x) { return x + torch::tanh(linear(x)); }
  nn::Linear linear{nullptr};
};

// Layers `first` to `last` of four; the first ones have the embedding, the last ones the
// head.
struct StackImpl : nn::Module {
  StackImpl(int first, int last) {
    if (first == 0) embed = register_module("embed", nn::Embedding(10, 8));
    register_module("h", h);
    for (int i = 0; i < 4; ++i) h->push_back(Unit<BlockImpl>::make());
    for (int i = 0; i < 4; ++i) {
      if (i < first || i > last) h->erase(std::to_string(i));
    }
    if (last == 3) head = register_module("head", nn::Linear(8, 10));
  }
  at::Tensor forward(at::Tensor x) {
    if (embed) x = embed(x);
    for (auto& block : *h) x = block.value()(x);
    return head ? head(x) : x;
  }
  nn::Embedding embed{nullptr};
  UnitList<BlockImpl> h{std::make_shared<UnitListImpl<BlockImpl>>()};
  nn::Linear head{nullptr};
};

std::shared_ptr<StackImpl> stack(int first, int last) {
  const DeferredInit guard;
  return std::make_shared<StackImpl>(first, last);
}

class Layers : public SeedFolder, public ::testing::WithParamInterface<int> {
 protected:
  Layers() {
    options.device = DeviceChoice::kCpu;
    options.adam_threads = 1;
    options.deterministic = true;
    options.seed = 3;
    options.schedule.lr = 0.1;
    path = save_seed(*stack(0, 3), options, run + "/full", {});
    options.source = Source::kCheckpoint;
    options.seed = 4;
    from_seed.with_optimizer = false;
    from_seed.allow_extra = {"*"};
  }
  void each_rank(const std::function<void(std::unique_ptr<Ranks>)>& body) {
    on_ranks(GetParam(), body);
  }
  // Layers with the values of the seed checkpoint, in an engine.
  struct Part {
    Part(Layers& of, int first, int last, Ranks& ranks)
        : model(stack(first, last)), engine(model, of.options, ranks.duplicate()) {
      extra = load_checkpoint(engine, of.path, of.from_seed).extra;
    }
    std::shared_ptr<StackImpl> model;
    Engine engine;
    std::vector<std::string> extra;
  };
  static std::map<std::string, at::Tensor> params(Engine& engine) {
    std::map<std::string, at::Tensor> all;
    for (const ShardView& view : engine.shards()) all[view.fqn] = at::Tensor();
    for (auto& [fqn, value] : all) value = engine.full_parameter(fqn);
    return all;
  }
  static at::Tensor loss_of(const at::Tensor& logits) { return logits.pow(2).sum(); }
  at::Tensor tokens(const Engine& engine) const {
    return torch::arange(6).remainder(5 + engine.rank()).view({2, 3});
  }

  Options options;
  LoadOptions from_seed;
  std::string path;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Layers, ::testing::Values(1, 2, 4));

TEST_P(Layers, HalvesKeepTheirNamesAndTrainAsTheWhole) {
  each_rank([&](std::unique_ptr<Ranks> ranks) {
    Part full(*this, 0, 3, *ranks), first(*this, 0, 1, *ranks),
        second(*this, 2, 3, *ranks);
    EXPECT_TRUE(full.extra.empty());
    EXPECT_EQ(first.extra, (std::vector<std::string>{
                               "h.2.linear.bias", "h.2.linear.weight", "h.3.linear.bias",
                               "h.3.linear.weight", "head.bias", "head.weight"}));

    const at::Tensor logits = full.engine.forward(full.model, tokens(full.engine));
    const at::Tensor middle = first.engine.forward(first.model, tokens(full.engine));
    const at::Tensor entry = middle.detach().requires_grad_();
    const at::Tensor piped = second.engine.forward(second.model, entry);
    EXPECT_TRUE(torch::equal(piped, logits));

    full.engine.backward(loss_of(logits), 6);
    second.engine.backward(loss_of(piped), 6);
    first.engine.backward((middle * entry.grad()).sum(), 6);
    for (Engine* engine : {&full.engine, &second.engine, &first.engine}) engine->step();
    const auto whole = params(full.engine);
    auto halves = params(first.engine);
    halves.merge(params(second.engine));
    ASSERT_EQ(halves.size(), whole.size());
    for (const auto& [fqn, value] : halves)
      EXPECT_TRUE(torch::equal(value, whole.at(fqn))) << fqn;
  });
}

TEST_P(Layers, WhatHalvesSaveMakesAWhole) {
  each_rank([&](std::unique_ptr<Ranks> ranks) {
    Part first(*this, 0, 1, *ranks), second(*this, 2, 3, *ranks);
    const std::string begin = save_checkpoint(first.engine, run + "/first", {});
    const std::string end = save_checkpoint(second.engine, run + "/second", {});
    EXPECT_NE(checkpoint::Reader(end).manifest().find(checkpoint::Kind::kParam,
                                                      "h.3.linear.weight"),
              nullptr);
    Part full(*this, 0, 3, *ranks);
    const auto expected = params(full.engine);
    full.engine.set_full_parameter("h.1.linear.bias", torch::zeros({8}));
    full.engine.set_full_parameter("head.bias", torch::zeros({10}));
    LoadOptions half;
    half.allow_missing = {"h.2.*", "h.3.*", "head.*"};
    load_checkpoint(full.engine, begin, half);
    half.allow_missing = {"h.0.*", "h.1.*", "embed.*"};
    load_checkpoint(full.engine, end, half);
    for (const auto& [fqn, value] : params(full.engine))
      EXPECT_TRUE(torch::equal(value, expected.at(fqn))) << fqn;
  });
}

}  // namespace
}  // namespace zero::testing::save_seed_test
