#include "zero/save_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/open_run.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/save/sources.h"
#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero::testing::save_load_test {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SaveLoad : public ::testing::Test {
 protected:
  SaveLoad() {
    fs::remove_all(run);
    options.deterministic = true;
  }
  ~SaveLoad() override { fs::remove_all(run); }

  std::shared_ptr<Gpt2Impl> model() const {
    const DeferredInit guard;
    return std::make_shared<Gpt2Impl>(config);
  }
  void train_steps(Engine& engine, std::shared_ptr<Gpt2Impl>& model, int from, int to) {
    for (int step = from; step < to; ++step) {
      for (int m = engine.rank(); m < 4; m += engine.size()) {
        const auto [tokens, targets] = batch_of(work, 257, step, m);
        engine.backward(engine.forward(model, tokens, targets), 32);
      }
      engine.step();
    }
  }
  // Ranks are threads, and `path` is theirs together.
  void save(Engine& engine, const SavedState& state) {
    const std::string saved = save_checkpoint(engine, run, state);
    if (engine.rank() == 0) path = saved;
  }
  // Train `steps` from scratch on `ranks` and save.
  void train_and_save(int ranks, int steps) {
    each_rank(ranks, [&](Engine& engine, std::shared_ptr<Gpt2Impl>& model) {
      train_steps(engine, model, 0, steps);
      SavedState state;
      state.step = engine.num_steps();
      state.config = R"({"dim":64})";
      state.position = R"({"batch":7})";
      state.user["mine"] = {'a', 'b'};
      save(engine, state);
    });
  }
  void each_rank(int ranks,
                 const std::function<void(Engine&, std::shared_ptr<Gpt2Impl>&)>& body) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Options mine = options;
      mine.micro_batches_per_rank = 4 / ranks;
      auto m = model();
      Engine engine(m, mine, std::move(comm));
      body(engine, m);
    });
  }
  // Two ranks refuse what lies in `path` with this text, and stay as they are.
  void expect_refused_untouched(const ::testing::Matcher<const char*>& text) {
    const Trained before = state_of(2, [](Engine&, auto&) {});
    const Trained after = state_of(2, [&](Engine& engine, auto&) {
      try {
        load_checkpoint(engine, path);
        FAIL();
      } catch (const Error& error) {  // which is no damage
        EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
        EXPECT_THAT(error.what(), text);
      }
    });
    expect_same(after, before);
  }
  // Masters and moments of all ranks, put together.
  Trained state_of(int ranks,
                   const std::function<void(Engine&, std::shared_ptr<Gpt2Impl>&)>& body) {
    Trained result;
    each_rank(ranks, [&](Engine& engine, std::shared_ptr<Gpt2Impl>& model) {
      body(engine, model);
      collect_shards(engine, result);
    });
    return result;
  }

  Gpt2Config config = small_gpt2();
  Work work;
  Options options = small_options(work);
  const std::string run =
      ::testing::TempDir() + "save_load_run_" + std::to_string(getpid());
  std::string path;
};

TEST_F(SaveLoad, ResumesOnAnyNumberOfRanksWithTheSameBits) {
  const Trained unbroken =
      state_of(1, [&](Engine& e, auto& m) { train_steps(e, m, 0, 5); });
  for (const int saved_by : {1, 2, 4}) {
    fs::remove_all(run);
    train_and_save(saved_by, 2);
    for (const int loaded_by : {1, 2, 4}) {
      const Trained resumed = state_of(loaded_by, [&](Engine& engine, auto& model) {
        const SavedState state = load_checkpoint(engine, path);
        EXPECT_EQ(state.step, 2);
        EXPECT_EQ(engine.num_steps(), 2);
        EXPECT_EQ(state.position, R"({"batch":7})");
        EXPECT_EQ(state.user.at("mine"), (std::vector<char>{'a', 'b'}));
        train_steps(engine, model, 2, 5);
      });
      SCOPED_TRACE(std::to_string(saved_by) + " -> " + std::to_string(loaded_by));
      expect_same(resumed, unbroken);
    }
  }
}

// However masters and states lie in memory, files hold fp32. The embedding is longer than
// what passes through at a time, in either direction.
TEST_F(SaveLoad, WhatIsStoredIn16BitsResumesWithTheSameBits) {
  config.vocab_size = 20000;
  options.dtype = DType::kBf16;
  options.master = MasterStorage::kSplit;
  options.state_dtype = DType::kBf16;
  const Trained unbroken =
      state_of(1, [&](Engine& e, auto& m) { train_steps(e, m, 0, 5); });
  train_and_save(2, 2);
  const auto load = [&](int ranks, int steps) {
    return state_of(ranks, [&](Engine& engine, auto& model) {
      load_checkpoint(engine, path);
      train_steps(engine, model, 2, 2 + steps);
    });
  };
  expect_same(load(4, 3), unbroken);
  const Trained in_halves = load(1, 0);
  options.master = MasterStorage::kFp32;
  options.state_dtype = DType::kFp32;
  expect_same(load(1, 0), in_halves);
}

TEST_F(SaveLoad, SixteenPairsOfRankCountsLoadTheSameBits) {
  options.deterministic = false;
  for (const int saved_by : {1, 2, 3, 4}) {
    fs::remove_all(run);
    Trained saved = state_of(saved_by, [&](Engine& engine, auto& model) {
      if (engine.size() != 3) train_steps(engine, model, 0, 1);
      SavedState state;
      state.step = engine.num_steps();
      save(engine, state);
    });
    for (const int loaded_by : {1, 2, 3, 4}) {
      options.prefetch = loaded_by - 1;
      expect_same(state_of(loaded_by,
                           [&](Engine& engine, auto&) { load_checkpoint(engine, path); }),
                  saved);
    }
  }
}

TEST_F(SaveLoad, LoadsUnderAnotherWrapping) {
  train_and_save(2, 1);
  const Trained expected =
      state_of(1, [&](Engine& e, auto&) { load_checkpoint(e, path); });
  options.auto_wrap.min_numel = 1 << 30;
  expect_same(state_of(2, [&](Engine& e, auto&) { load_checkpoint(e, path); }), expected);
}

TEST_F(SaveLoad, LoadedWeightsAreThoseOneComputesWith) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const int ranks : {1, 2}) {
      fs::remove_all(run);
      options.dtype = dtype;
      double saved_loss = 0, first_loss = 0;
      const auto evaluate = [&](Engine& engine, std::shared_ptr<Gpt2Impl>& model) {
        const torch::NoGradGuard no_grad;
        const auto [tokens, targets] = batch_of(work, 257, 9, 0);
        return engine.forward(model, tokens, targets).item<double>();
      };
      options.seed = 3;
      each_rank(ranks, [&](Engine& engine, auto& model) {
        train_steps(engine, model, 0, 2);
        const double loss = evaluate(engine, model);
        if (engine.rank() == 0) saved_loss = loss;
        save(engine, {});
      });
      options.seed = 4;
      each_rank(ranks, [&](Engine& engine, auto& model) {
        const double loss = evaluate(engine, model);  // the start's weights are gathered
        if (engine.rank() == 0) first_loss = loss;
        load_checkpoint(engine, path);
        EXPECT_EQ(evaluate(engine, model), saved_loss) << ranks << " ranks";
      });
      EXPECT_NE(first_loss, saved_loss);
    }
  }
}

TEST_F(SaveLoad, ModelAloneLeavesTheOptimizerFresh) {
  train_and_save(2, 2);
  const Trained loaded = state_of(2, [&](Engine& engine, auto&) {
    LoadOptions model_only;
    model_only.with_optimizer = false;
    load_checkpoint(engine, path, model_only);
    EXPECT_EQ(engine.num_steps(), 0);
  });
  for (const auto& [fqn, values] : loaded.state)
    EXPECT_EQ(values, std::vector<float>(values.size(), 0)) << fqn;
}

TEST_F(SaveLoad, BetweenABackwardAndItsStepIsRefusedAndChangesNothing) {
  train_and_save(2, 1);
  const Trained unbroken =
      state_of(2, [&](Engine& e, auto& m) { train_steps(e, m, 0, 2); });
  const Trained asked = state_of(2, [&](Engine& engine, auto& model) {
    train_steps(engine, model, 0, 1);
    for (int m = engine.rank(); m < 4; m += engine.size()) {
      const auto [tokens, targets] = batch_of(work, 257, 1, m);
      engine.backward(engine.forward(model, tokens, targets), 32);
      EXPECT_THROW(load_checkpoint(engine, path), Error);
    }
    engine.step();
  });
  expect_same(asked, unbroken);
}

TEST_F(SaveLoad, EveryOptimizerResumesOnAnyNumberOfRanksWithTheSameBits) {
  for (const Optimizer kind : {Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
    SCOPED_TRACE(name_of(kind));
    fs::remove_all(run);
    options.optimizer.kind = kind;
    const Trained unbroken =
        state_of(1, [&](Engine& e, auto& m) { train_steps(e, m, 0, 4); });
    train_and_save(2, 2);
    for (const int loaded_by : {1, 4}) {
      const Trained resumed = state_of(loaded_by, [&](Engine& engine, auto& model) {
        load_checkpoint(engine, path);
        train_steps(engine, model, 2, 4);
      });
      expect_same(resumed, unbroken);
    }
  }
}

TEST_F(SaveLoad, TheStateOfAnotherOptimizerIsRefusedByName) {
  train_and_save(1, 1);
  options.optimizer.kind = Optimizer::kLion;  // which has an exp_avg, too
  expect_refused_untouched(
      AllOf(HasSubstr("the state of another optimizer (exp_avg, exp_avg_sq)"),
            HasSubstr("lion keeps exp_avg"), HasSubstr("fresh_optimizer")));
}

TEST_F(SaveLoad, AFreshOptimizerGoesOnFromTheStepWithoutState) {
  train_and_save(2, 2);
  LoadOptions fresh;
  fresh.fresh_optimizer = true;
  for (const Optimizer kind : {Optimizer::kLion, Optimizer::kAdamW}) {
    SCOPED_TRACE(name_of(kind));
    options.optimizer.kind = kind;
    // Saved once more on the way: it remembers when its optimizer began.
    const std::string first = path;
    const Trained stopped = state_of(2, [&](Engine& engine, auto& model) {
      load_checkpoint(engine, first, fresh);
      EXPECT_EQ(engine.num_steps(), 2);
      EXPECT_EQ(engine.optimizer_start(), 2);
      for (const ShardView& view : engine.shards()) {
        for (const StateView& state : view.state)
          EXPECT_THAT(state.values.span(), ::testing::Each(0));
      }
      train_steps(engine, model, 2, 3);
      SavedState state;
      state.step = 3;
      save(engine, state);
    });
    const Trained resumed = state_of(1, [&](Engine& engine, auto& model) {
      load_checkpoint(engine, path);
      EXPECT_EQ(engine.optimizer_start(), 2);
      train_steps(engine, model, 3, 5);
    });
    const Trained unbroken = state_of(1, [&](Engine& engine, auto& model) {
      load_checkpoint(engine, first, fresh);
      train_steps(engine, model, 2, 5);
    });
    expect_same(resumed, unbroken);
    // As an engine whose first step is the checkpoint's third: bias corrections begin.
    const Trained begun = state_of(1, [&](Engine& engine, auto& model) {
      LoadOptions weights;
      weights.with_optimizer = false;
      load_checkpoint(engine, first, weights);
      engine.set_num_steps(2, 2);
      train_steps(engine, model, 2, 5);
    });
    expect_same(begun, unbroken);
    fs::remove_all(path);
    path = first;
  }
}

TEST_F(SaveLoad, ListsEveryMismatchAndTouchesNothing) {
  train_and_save(1, 1);
  config.n_layer = 4;
  config.n_positions = 16;
  expect_refused_untouched(AllOf(HasSubstr("transformer.h.3.ln_1.weight"),
                                 HasSubstr("transformer.wpe.weight")));
}

TEST_F(SaveLoad, NumbersOfAnEngineThatKnowsMoreAreRefusedByName) {
  train_and_save(2, 1);
  checkpoint::Manifest manifest = checkpoint::load_manifest(checkpoint::Folder(path));
  EXPECT_TRUE(manifest.engine.empty());
  manifest.engine = {{"optimizer_start", 0}, {"rank", 8}, {"unheard_of", 0.5}};
  std::ofstream(path + "/manifest.json") << to_text(manifest);
  expect_refused_untouched(HasSubstr("know: rank, unheard_of"));
}

TEST_F(SaveLoad, DeletedLayersLoadWhenAllowed) {
  train_and_save(1, 1);
  config.n_layer = 2;
  EXPECT_THROW(state_of(1, [&](Engine& e, auto&) { load_checkpoint(e, path); }), Error);
  const Trained loaded = state_of(1, [&](Engine& engine, auto&) {
    LoadOptions allowed;
    allowed.allow_extra = {"transformer.h.2.*"};
    load_checkpoint(engine, path, allowed);
  });
  EXPECT_FALSE(loaded.params.contains("transformer.h.2.ln_1.weight"));
}

TEST_F(SaveLoad, DamageIsFoundOnEveryRankAndNamed) {
  train_and_save(2, 1);
  const fs::path shard = fs::path(path) / "shard_00001_of_00002.h5";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(shard) / 2));
  file.put(0x55);
  file.close();
  int throws = 0;
  std::mutex mutex;
  each_rank(2, [&](Engine& engine, auto&) {
    try {
      load_checkpoint(engine, path);
    } catch (const checkpoint::CheckpointError& error) {
      const std::lock_guard lock(mutex);
      ++throws;
      EXPECT_THAT(error.what(), HasSubstr("shard_00001_of_00002.h5"));
    }
  });
  EXPECT_EQ(throws, 2);
}

TEST_F(SaveLoad, ASecondSaveOfAStepIsRefusedOnEveryRank) {
  train_and_save(2, 1);
  EXPECT_THROW(train_and_save(2, 1), checkpoint::CheckpointError);
  each_rank(2, [&](Engine& engine, auto& model) {
    train_steps(engine, model, 0, 1);
    SavedState state;
    state.step = 1;
    EXPECT_NO_THROW(save_checkpoint(engine, run, state, /*replace=*/true));
  });
}

TEST_F(SaveLoad, ASaveThatFailsLeavesNothing) {
  each_rank(2, [&](Engine& engine, auto&) {
    SavedState state;
    state.config = "{";
    EXPECT_THROW(save_checkpoint(engine, run, state), checkpoint::CheckpointError);
  });
  EXPECT_TRUE(fs::is_empty(run));
}

// Its folder moves when a save has begun.
class MovingRun : public checkpoint::OpenRun {
 public:
  explicit MovingRun(const std::string& path) : OpenRun(path) {}
  void check() const override {
    OpenRun::check();
    fs::rename(path(), path() + "_moved");
  }
};

TEST_F(SaveLoad, OfARunWhoseFolderMovesMeanwhileIsRefusedForThat) {
  fs::create_directory(run);
  each_rank(2, [&](Engine& engine, auto&) {
    std::unique_ptr<MovingRun> moving;
    if (engine.rank() == 0) moving = std::make_unique<MovingRun>(run);
    try {
      save_checkpoint(engine, moving.get(), SavedState());
      FAIL() << "was saved";
    } catch (const checkpoint::CheckpointError& error) {
      if (engine.rank() > 0) return;
      EXPECT_THAT(error.what(), HasSubstr("was moved, replaced or removed"));
    }
  });
  EXPECT_FALSE(fs::exists(run));
  fs::remove_all(run + "_moved");
}

TEST_F(SaveLoad, RanksThatAskForDifferentStepsAllFail) {
  int throws = 0;
  std::mutex mutex;
  each_rank(2, [&](Engine& engine, auto&) {
    SavedState state;
    state.step = engine.rank();
    try {
      save_checkpoint(engine, run, state);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      throws += error.code() == ExitCode::kDiverged;
    }
  });
  EXPECT_EQ(throws, 2);
  EXPECT_FALSE(fs::exists(run));
}

// First values are the same in each engine: nothing need be set before the load.
TEST_F(SaveLoad, FrozenWeightsMayBeLeftOut) {
  options.groups = {{"*attn*", 1, {}, /*frozen=*/true}};
  std::vector<std::string> left_out;
  std::vector<uint64_t> sums, rounded;
  Trained trained;
  std::mutex mutex;
  each_rank(2, [&](Engine& engine, auto& model) {
    train_steps(engine, model, 0, 2);
    std::vector<std::string> frozen;
    for (const ShardView& view : engine.shards())
      if (view.frozen) frozen.push_back(view.fqn);
    const auto found = engine.checksums(frozen);
    const auto in_bf16 = engine.checksums(frozen, DType::kBf16);
    const std::lock_guard lock(mutex);
    left_out = frozen, sums = found, rounded = in_bf16;
    collect_shards(engine, trained);
  });
  EXPECT_EQ(left_out.size(), 12u);
  EXPECT_NE(sums, rounded);
  each_rank(2, [&](Engine& engine, auto& model) {
    train_steps(engine, model, 0, 2);
    save(engine, {.step = 2, .left_out = left_out});
    EXPECT_THAT(error_of([&] {
                  save_checkpoint(engine, run,
                                  {.step = 3, .left_out = {"transformer.wte.weight"}});
                }),
                HasSubstr("would not be saved"));
  });
  expect_refused_untouched(AllOf(HasSubstr("missing"), HasSubstr("attn")));
  LoadOptions without;
  without.allow_missing = left_out;
  for (const int ranks : {1, 2, 4}) {
    Trained loaded;
    each_rank(ranks, [&](Engine& engine, auto&) {
      const SavedState state = load_checkpoint(engine, path, without);
      EXPECT_THAT(state.missing, ::testing::UnorderedElementsAreArray(left_out));
      EXPECT_EQ(engine.checksums(left_out), sums);
      EXPECT_EQ(engine.checksums(left_out, DType::kBf16), rounded);
      EXPECT_EQ(engine.checksums({}), std::vector<uint64_t>());
      const std::lock_guard lock(mutex);
      collect_shards(engine, loaded);
    });
    EXPECT_EQ(loaded.params, trained.params);
  }
}

TEST(SourcesOfWeights, TellTwentyProblemsAndTheNumberOfOthers) {
  const auto told_of = [](int num_unknown) -> std::string {
    OfferedTensors offered;
    for (int i = 0; i < num_unknown; ++i) offered["w" + std::to_string(i)];
    try {
      find_sources({}, {}, offered, {}, "file", "cure");
    } catch (const checkpoint::CheckpointError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(told_of(20), AllOf(HasSubstr("w19 is not"), Not(HasSubstr("more"))));
  EXPECT_THAT(told_of(21), HasSubstr("and 1 more that are not in the model"));
}

TEST_F(SaveLoad, TiedWeightsAreStoredOnce) {
  train_and_save(2, 1);
  std::ifstream manifest(path + "/manifest.json");
  const std::string text((std::istreambuf_iterator<char>(manifest)), {});
  EXPECT_THAT(text, HasSubstr("lm_head.weight"));
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path))
    bytes += static_cast<int64_t>(entry.file_size());
  int64_t numel = 0;
  each_rank(1, [&](Engine& engine, auto&) { numel = engine.num_parameters(); });
  EXPECT_LT(bytes, numel * 12 + (1 << 20));
}

// One weight of two names: which comes first is the model's own business.
struct PairImpl : torch::nn::Module {
  explicit PairImpl(bool head_comes_first) {
    const torch::nn::Linear linear(torch::nn::LinearOptions(20, 20).bias(false));
    auto head = std::make_shared<torch::nn::Module>("Head");
    head->register_parameter("weight", linear->weight);
    if (head_comes_first) register_module("head", head);
    register_module("linear", linear);
    if (!head_comes_first) register_module("head", head);
  }
};

class TiedPair : public SaveLoad {
 protected:
  void each_rank(int ranks, bool head_comes_first,
                 const std::function<void(Engine&)>& body) {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Options plain;
      plain.device = DeviceChoice::kCpu;
      Engine engine(std::make_shared<PairImpl>(head_comes_first), plain, std::move(comm));
      body(engine);
    });
  }
  const at::Tensor weight = torch::linspace(-1, 1, 400).view({20, 20});
};

TEST_F(TiedPair, IsFoundUnderItsOtherName) {
  each_rank(2, false, [&](Engine& engine) {
    engine.set_full_parameter("linear.weight", weight);
    save(engine, {});
  });
  each_rank(2, true, [&](Engine& engine) {
    const SavedState state = load_checkpoint(engine, path);
    EXPECT_TRUE(torch::equal(engine.full_parameter("head.weight"), weight));
    EXPECT_THAT(state.missing, ::testing::IsEmpty());
    EXPECT_THAT(state.extra, ::testing::IsEmpty());
  });
}

TEST_F(TiedPair, ItsStartIsFoundUnderItsOtherName) {
  each_rank(2, false, [&](Engine& engine) {
    engine.set_num_steps(3);
    engine.set_optimizer_start("linear.weight", 2);
    SavedState state;
    state.step = 3;
    save(engine, state);
  });
  each_rank(2, true, [&](Engine& engine) {
    load_checkpoint(engine, path);
    EXPECT_EQ(engine.optimizer_start("head.weight"), 2);
  });
}

TEST_F(TiedPair, MayStandInAFileUnderBothNames) {
  fs::create_directories(run);
  const DType fp32 = DType::kFp32;
  checkpoint::SafetensorsWriter writer(
      run, {{"head.weight", fp32, {20, 20}}, {"linear.weight", fp32, {20, 20}}}, 1 << 30);
  const std::span<const float> values(weight.const_data_ptr<float>(), 400);
  writer.write("head.weight", 0, values);
  writer.write("linear.weight", 0, values);
  writer.finish();
  for (const int ranks : {1, 2, 3}) {
    each_rank(ranks, false, [&](Engine& engine) {
      EXPECT_THAT(load_safetensors(engine, run, {}), ::testing::IsEmpty());
      EXPECT_TRUE(torch::equal(engine.full_parameter("linear.weight"), weight));
    });
  }
}

TEST_F(TiedPair, MayHaveAnotherNameInAFile) {
  fs::create_directories(run);
  checkpoint::SafetensorsWriter writer(run, {{"lm_head.weight", DType::kFp32, {20, 20}}},
                                       1 << 30);
  writer.write("lm_head.weight", 0, {weight.const_data_ptr<float>(), 400});
  writer.finish();
  each_rank(1, false, [&](Engine& engine) {
    EXPECT_ANY_THROW(load_safetensors(engine, run, {}));
    load_safetensors(engine, run, {.renamed = {{"head*", "lm_head*"}}});
    EXPECT_TRUE(torch::equal(engine.full_parameter("linear.weight"), weight));
  });
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    turns = register_buffer("turns", torch::zeros({2}, torch::kComplexFloat));
    counts = register_buffer("counts", torch::zeros({2}, torch::kShort));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(x).pow(2).sum(); }
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor turns, counts;
};

TEST_F(SaveLoad, BuffersAreSavedAsTheirMeanAndStayAsTheyAre) {
  Options plain;
  plain.device = DeviceChoice::kCpu;
  const auto expect_odd_types = [](const NormedImpl& model) {
    EXPECT_TRUE(torch::equal(model.turns, torch::full({2}, c10::complex<float>(0.5, 1.5),
                                                      torch::kComplexFloat)));
    EXPECT_TRUE(torch::equal(model.counts, torch::full({2}, -299, torch::kShort)));
  };
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = std::make_shared<NormedImpl>();
    Engine engine(model, plain, std::move(comm));
    const torch::NoGradGuard no_grad;
    model->norm->running_mean.fill_(rank == 0 ? 1.0 : 2.0);
    model->norm->num_batches_tracked.fill_(rank == 0 ? 5 : 7);
    model->turns.fill_(c10::complex<float>(rank, 2 - rank));
    model->counts.fill_(rank - 300);
    save(engine, {});
    EXPECT_TRUE(torch::equal(model->norm->running_mean, torch::full({3}, rank + 1.0)))
        << "a save changes nothing of the run";
    engine.average_buffers();
    EXPECT_TRUE(torch::equal(model->norm->running_mean, torch::full({3}, 1.5)));
    EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), 7);
    expect_odd_types(*model);
  });
  auto model = std::make_shared<NormedImpl>();
  Engine engine(model, plain, nullptr);
  EXPECT_THAT(load_checkpoint(engine, path).extra, ::testing::IsEmpty());
  EXPECT_TRUE(torch::equal(model->norm->running_mean, torch::full({3}, 1.5)));
  EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), 7);
  expect_odd_types(*model);

  // As a checkpoint of before is, which had none of them.
  checkpoint::Manifest manifest = checkpoint::load_manifest(checkpoint::Folder(path));
  std::erase_if(manifest.tensors, [](const checkpoint::StoredTensor& tensor) {
    return tensor.fqn == "turns" || tensor.fqn == "counts";
  });
  std::ofstream(path + "/manifest.json") << to_text(manifest);
  model->turns.zero_();
  EXPECT_THAT(load_checkpoint(engine, path).missing, ::testing::IsEmpty());
  EXPECT_TRUE(torch::equal(model->turns, torch::zeros({2}, torch::kComplexFloat)));
}

}  // namespace
}  // namespace zero::testing::save_load_test
