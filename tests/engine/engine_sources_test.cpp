// Where first values come from: Options::source.
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::engine_sources_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Model = std::shared_ptr<Gpt2Impl>;

class Sources : public ::testing::TestWithParam<int> {
 protected:
  Sources() {
    fs::remove_all(run);
    config.vocab_size = 20000;  // its embedding is sent in more than one piece
    options.deterministic = true;
    options.micro_batches_per_rank = 1;
  }
  ~Sources() override { fs::remove_all(run); }

  int ranks() const { return GetParam(); }

  Model deferred() const { return deferred_gpt2(config); }
  // In memory, with values of its own.
  Model full() const {
    auto model = std::make_shared<Gpt2Impl>(config);
    const torch::NoGradGuard no_grad;
    double from = -1;
    for (at::Tensor& param : model->parameters()) {
      param.copy_(values(param.sizes().vec(), from, 1.3));
      from += 0.01;
    }
    return model;
  }
  std::map<std::string, std::vector<float>> values_of_full() const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& item : full()->named_parameters()) {
      const at::Tensor flat = item.value().detach().reshape({-1});
      const float* begin = flat.const_data_ptr<float>();
      all[item.key()].assign(begin, begin + flat.numel());
    }
    all.erase("lm_head.weight");  // tied to the embedding
    return all;
  }

  using Body = std::function<void(Engine&, Model&)>;

  // The parameters of engines after `body`, put together.
  std::map<std::string, std::vector<float>> params(
      Source source, const std::function<Model(int rank)>& make,
      const Body& body = [](Engine&, Model&) {}) {
    Trained all;
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      Options mine = options;
      mine.source = source;
      if (!mine.trace_comm.empty()) mine.trace_comm += std::to_string(comm->rank());
      Model model = make(comm->rank());
      Engine engine(model, mine, std::move(comm));
      body(engine, model);
      collect_shards(engine, all);
    });
    return all.params;
  }
  std::map<std::string, std::vector<float>> params(
      Source source, const Body& body = [](Engine&, Model&) {}) {
    return params(
        source, [&](int) { return deferred(); }, body);
  }

  static SavedState at_step(int64_t step) {
    SavedState state;
    state.step = step;
    return state;
  }
  void train_step(Engine& engine, Model& model) {
    const auto [tokens, targets] = batch_of(work, 257, 0, engine.rank());
    engine.backward(engine.forward(model, tokens, targets), 32);
    engine.step();
  }
  // A step of training, saved; returns the parameters.
  std::map<std::string, std::vector<float>> train_and_save() {
    return params(Source::kInit, [&](Engine& engine, Model& model) {
      train_step(engine, model);
      const std::string saved = save_checkpoint(engine, run, at_step(1));
      if (engine.rank() == 0) path = saved;
    });
  }

  Gpt2Config config = small_gpt2();
  Work work;
  Options options = small_options(work);
  const std::string run = ::testing::TempDir() + "sources_" + std::to_string(getpid());
  std::string path;
};

INSTANTIATE_TEST_SUITE_P(Ranks, Sources, ::testing::Values(1, 2, 4));

TEST_P(Sources, RankZeroSendsItsModelToRanksThatHaveNone) {
  const auto make = [&](int rank) { return rank == 0 ? full() : deferred(); };
  EXPECT_EQ(params(Source::kRank0, make), values_of_full());
}

TEST_P(Sources, RankZeroMustHaveWhatItSends) {
  options.source = Source::kRank0;
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const Model model = comm->rank() == 0 ? deferred() : full();
    EXPECT_THAT(error_of([&] { Engine(model, options, std::move(comm)); }),
                HasSubstr("a deferred parameter on rank 0"));
  });
}

TEST_P(Sources, EveryRankKeepsItsSliceAndSendsNothing) {
  options.trace_comm = run + "_trace_" + std::to_string(ranks()) + "_";
  EXPECT_EQ(params(Source::kEveryRank, [&](int) { return full(); }), values_of_full());
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::string path = options.trace_comm + std::to_string(rank);
    std::ifstream trace(path);
    const std::string calls(std::istreambuf_iterator<char>(trace), {});
    EXPECT_THAT(calls, Not(HasSubstr("broadcast")));
    fs::remove(path);
  }
}

TEST_P(Sources, WeightsThatAreNotRankZerosAreNamed) {
  if (ranks() == 1) return;  // it is like itself
  options.source = Source::kEveryRank;
  const int odd = ranks() - 1;
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const Model model = full();
    const torch::NoGradGuard no_grad;
    if (comm->rank() == odd)
      model->named_parameters()["transformer.ln_f.bias"][63] += 1e-6;
    EXPECT_THAT(
        error_of([&] { Engine(model, options, std::move(comm)); }, ExitCode::kDiverged),
        HasSubstr("different weights: transformer.ln_f.bias (rank " +
                  std::to_string(odd) + ")\n"));
  });
}

TEST_P(Sources, EveryRankMustHaveTheWholeModel) {
  options.source = Source::kEveryRank;
  const int poor = ranks() - 1;
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    const Model model = comm->rank() == poor ? deferred() : full();
    EXPECT_THAT(error_of([&] { Engine(model, options, std::move(comm)); }),
                HasSubstr("a deferred parameter on rank " + std::to_string(poor)));
  });
}

TEST_P(Sources, ACheckpointIsReadAndNothingInitializedBefore) {
  const auto saved = train_and_save();
  const auto loaded = params(Source::kCheckpoint, [&](Engine& engine, Model&) {
    EXPECT_TRUE(engine.awaits_values());
    for (const ShardView& view : engine.shards())
      EXPECT_THAT(view.master.read_all(), Each(0.0f)) << view.fqn;
    load_checkpoint(engine, path);
    EXPECT_FALSE(engine.awaits_values());
  });
  EXPECT_EQ(loaded, saved);
}

TEST_P(Sources, WhatReadsOrSetsWeightsWaitsForTheCheckpoint) {
  train_and_save();
  params(Source::kCheckpoint, [&](Engine& engine, Model& model) {
    const std::string bias = "transformer.ln_f.bias";
    const std::string cure = "load_checkpoint()";
    EXPECT_THAT(error_of([&] { train_step(engine, model); }), HasSubstr(cure));
    EXPECT_THAT(error_of([&] { engine.full_parameter(bias); }), HasSubstr(cure));
    EXPECT_THAT(error_of([&] { engine.set_full_parameter(bias, torch::zeros({64})); }),
                HasSubstr(cure));
    EXPECT_THAT(error_of([&] { save_checkpoint(engine, run, at_step(7)); }),
                HasSubstr(cure));
    load_checkpoint(engine, path);
    train_step(engine, model);
    EXPECT_EQ(engine.num_steps(), 2);
  });
}

// What a smaller model's checkpoint lacks starts with the bits of a start without it.
TEST_P(Sources, OnlyWhatTheCheckpointLacksIsInitialized) {
  config.n_layer = 1;
  const auto saved = train_and_save();
  config.n_layer = 2;
  auto expected = params(Source::kInit);
  for (const auto& [fqn, value] : saved) expected[fqn] = value;
  const auto loaded = params(Source::kCheckpoint, [&](Engine& engine, Model&) {
    LoadOptions load;
    load.allow_missing = {"transformer.h.1.*"};
    const SavedState state = load_checkpoint(engine, path, load);
    EXPECT_EQ(state.missing.size(), 12u);
    EXPECT_EQ(state.extra, std::vector<std::string>());
  });
  EXPECT_EQ(loaded, expected);
}

TEST_P(Sources, WhatHasMemoryIsMissingWithItsOwnValues) {
  config.n_layer = 1;
  auto expected = train_and_save();
  config.n_layer = 2;
  for (const auto& [fqn, value] : values_of_full()) expected.try_emplace(fqn, value);
  LoadOptions load;
  load.allow_missing = {"transformer.h.1.*"};
  EXPECT_EQ(params(
                Source::kCheckpoint, [&](int) { return full(); },
                [&](Engine& engine, Model&) { load_checkpoint(engine, path, load); }),
            expected);
}

TEST_P(Sources, WithoutACheckpointAllCanBeInitializedLater) {
  const auto later = params(Source::kCheckpoint, [&](Engine& engine, Model& model) {
    engine.initialize();
    engine.masters_changed();
    EXPECT_THAT(error_of([&] { engine.initialize(); }), HasSubstr("has its values"));
    torch::NoGradGuard no_grad;
    const auto [tokens, targets] = batch_of(work, 257, 0, 0);
    EXPECT_GT(engine.forward(model, tokens, targets).item<double>(), 0);
  });
  EXPECT_EQ(later, params(Source::kInit));
}

// A function that says how often it was called for which modules, on all ranks together.
struct Counting {
  std::mutex mutex;
  std::map<std::string, int> calls;

  InitFunction function() {
    return [this](const InitCall& call) {
      const std::scoped_lock lock(mutex);
      ++calls[call.fqn];
      for (at::Tensor& param : call.module.parameters(/*recurse=*/false))
        torch::nn::init::normal_(param, 3, 0.5);
      return InitDone::kAll;
    };
  }
};

TEST_P(Sources, FunctionsMakeWhatTheCheckpointLacksAndNothingElse) {
  Counting counting;
  options.param_init = counting.function();
  options.post_init = [](Engine&, torch::nn::Module&) { FAIL() << "a checkpoint's"; };
  options.init_report = true;
  Options plain = options;
  plain.post_init = nullptr;
  std::swap(options, plain);
  config.n_layer = 1;
  const auto saved = train_and_save();
  config.n_layer = 2;
  auto expected = params(Source::kInit);
  for (const auto& [fqn, value] : saved) expected[fqn] = value;

  std::swap(options, plain);
  counting.calls.clear();
  const auto loaded = params(Source::kCheckpoint, [&](Engine& engine, Model&) {
    EXPECT_THAT(counting.calls, IsEmpty());
    engine.control().barrier("counted");
    LoadOptions load;
    load.allow_missing = {"transformer.h.1.*"};
    load_checkpoint(engine, path, load);
    EXPECT_EQ(engine.init_report().size(), 12u);
    EXPECT_EQ(engine.init_report().front().who, "function of transformer.h.1.ln_1");
  });
  EXPECT_EQ(loaded, expected);
  for (const auto& [module, count] : counting.calls) {
    EXPECT_TRUE(module.starts_with("transformer.h.1.")) << module;
    EXPECT_EQ(count, ranks()) << module;
  }
  EXPECT_EQ(counting.calls.size(), 6u);
}

TEST_P(Sources, TypesAreProvedBeforeACheckpointIsRead) {
  options.source = Source::kCheckpoint;
  options.init_types = {init_type<torch::nn::LayerNormImpl>(
      [](torch::nn::LayerNormImpl& norm, const InitCall&) { norm.reset_parameters(); })};
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
    EXPECT_THAT(error_of([&] { Engine(deferred(), options, std::move(comm)); }),
                HasSubstr("no type of init_types covers"));
  });
}

TEST_P(Sources, PostInitFollowsWhereThereIsNoCheckpoint) {
  const std::string bias = "transformer.ln_f.bias";
  std::atomic<int> calls = 0;
  options.post_init = [&](Engine& engine, torch::nn::Module&) {
    ++calls;
    engine.set_full_parameter(bias, engine.full_parameter(bias) + 2);
  };
  const auto later = params(Source::kCheckpoint, [&](Engine& engine, Model&) {
    engine.initialize();
    engine.masters_changed();
  });
  EXPECT_EQ(calls, ranks());
  EXPECT_EQ(later, params(Source::kInit));
  EXPECT_THAT(later.at(bias), Each(2.0f));
}

TEST_P(Sources, FullModelsMustBeFinite) {
  for (const Source source : {Source::kRank0, Source::kEveryRank}) {
    options.source = source;
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      const Model model = full();
      torch::NoGradGuard no_grad;
      model->named_parameters()["transformer.ln_f.bias"][63] = INFINITY;
      EXPECT_THAT(error_of([&] { Engine(model, options, std::move(comm)); }),
                  HasSubstr("not finite:\n  - transformer.ln_f.bias: 1\n"));
    });
  }
}

TEST_P(Sources, TheReportSaysWhoHeldTheModel) {
  options.init_report = true;
  std::mutex mutex;
  std::map<std::string, uint64_t> checksums;
  for (const auto& [source, who] : {std::pair(Source::kRank0, "rank 0"),
                                    std::pair(Source::kEveryRank, "every rank")}) {
    options.source = source;
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
      Engine engine(full(), options, std::move(comm));
      ASSERT_EQ(engine.init_report().size(), values_of_full().size());
      const std::scoped_lock lock(mutex);
      for (const InitEntry& entry : engine.init_report()) {
        EXPECT_EQ(entry.who, who);
        EXPECT_EQ(checksums.try_emplace(entry.fqn, entry.checksum).first->second,
                  entry.checksum)
            << entry.fqn;
      }
    });
  }
}

// Buffers are sent from rank 0, unless every rank is to have its own: then they must be
// the same.
struct TableImpl : torch::nn::Module {
  explicit TableImpl(const at::Tensor& first) {
    w = register_parameter("w", values({3}));
    table = register_buffer("table", first);
  }
  at::Tensor w, table;
};

TEST(SourcesOfBuffers, BuffersOfFullModelsAreCompared) {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto model = std::make_shared<TableImpl>(values({3}, comm->rank()));
    Engine engine(model, options, std::move(comm));
    EXPECT_EQ(model->table[0].item<double>(), 0);
  });
  options.source = Source::kEveryRank;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto model = std::make_shared<TableImpl>(values({3}, comm->rank()));
    EXPECT_THAT(
        error_of([&] { Engine(model, options, std::move(comm)); }, ExitCode::kDiverged),
        HasSubstr("start differently: buffer table (rank 1)\n"));
  });
}

TEST(SourcesOfBuffers, AnExpandedBufferBecomesRank0s) {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.adam_threads = 1;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const at::Tensor row = torch::full({1, 3}, double(comm->rank()));
    const auto model = std::make_shared<TableImpl>(row.expand({4, 3}));
    Engine engine(model, options, std::move(comm));
    EXPECT_TRUE(torch::equal(model->table, torch::zeros({4, 3})));
  });
}

}  // namespace
}  // namespace zero::testing::engine_sources_test
