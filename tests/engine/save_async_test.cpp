// Saves beside steps: they hold the state of the step at which they were asked for, and
// the steps go on as without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/device/host_device.h"
#include "engine/step/update_queue.h"
#include "tests/engine/training.h"
#include "zero/errors.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::testing::save_async_test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

constexpr int kSavedStep = 2;

// Names of values, hashes of all bytes, and all numbers that are saved beside them.
std::string manifest_of(const std::string& checkpoint) {
  std::ostringstream text;
  text << std::ifstream(checkpoint + "/manifest.json").rdbuf();
  return text.str();
}

// How an engine keeps what a save reads.
struct Kept {
  const char* name;
  void (*choose)(Options& options);
};

const Kept kKept[] = {{"plain", [](Options&) {}},
                      {"halves",
                       [](Options& options) {
                         options.dtype = DType::kBf16;
                         options.master = MasterStorage::kSplit;
                         options.state_dtype = DType::kBf16;
                       }},
                      {"drafts",
                       [](Options& options) {
                         options.dtype = DType::kBf16;
                         options.speculate_bytes = 1 << 20;
                         options.clip = 0;  // so that they are taken
                       }},
                      {"drafts of halves",
                       [](Options& options) {
                         options.dtype = DType::kBf16;
                         options.master = MasterStorage::kSplit;
                         options.speculate_bytes = 1 << 20;
                         options.clip = 0;
                       }},
                      {"scaled", [](Options& options) {
                         options.dtype = DType::kFp16;
                         options.loss_scale = {.init = 2, .window = 1};  // another one
                                                                         // after each
                                                                         // step
                       }}};

// Its forward changes what is trained, in the unit and in the root.
struct ChangingImpl : torch::nn::Module {
  struct BlockImpl : torch::nn::Module {
    BlockImpl() { w = register_parameter("w", torch::ones({64})); }
    at::Tensor forward(const at::Tensor& x) {
      w.data().mul_(1.25);
      return x * w;
    }
    at::Tensor w;
  };
  ChangingImpl() {
    block = register_module("block", Unit<BlockImpl>::make());
    v = register_parameter("v", torch::ones({64}));
  }
  at::Tensor forward(const at::Tensor& x) {
    v.data().add_(1);
    return (block(x) * v).sum();
  }
  Unit<BlockImpl> block;
  at::Tensor v;
};

class SaveAsync : public ::testing::Test {
 protected:
  SaveAsync() { fs::remove_all(run); }
  ~SaveAsync() override {
    set_delays({});
    fs::remove_all(run);
  }

  struct Left {
    Trained trained;
    std::string manifest;
  };

  // Train, and save in the middle by `save`, which returns the path.
  Left train_and_save(
      int ranks, const Options& options,
      const std::function<std::shared_ptr<Save>(Engine&, const SavedState&)>& save) {
    fs::remove_all(run);
    std::vector<std::shared_ptr<Save>> saves(ranks);
    Left left;
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl&, int step) {
      std::shared_ptr<Save>& own = saves[engine.rank()];
      if (engine.num_steps() == kSavedStep && !own) {
        SavedState state;
        state.step = engine.num_steps();
        state.position = R"({"batch":2})";
        state.user["mine"] = {'a', 'b'};
        own = save(engine, state);
        state = {};
      }
      if (step + 1 < work.steps || !own) return;
      const std::string path = own->wait();
      if (engine.rank() == 0) left.manifest = manifest_of(path);
    };
    left.trained = train(ranks, options, work, hooks, tiny);
    return left;
  }
  Left train_and_save_async(int ranks, const Options& options) {
    return train_and_save(ranks, options, [&](Engine& engine, const SavedState& state) {
      return save_async(engine, run, state);
    });
  }

  const Gpt2Config tiny{
      .n_layer = 2, .n_head = 1, .n_embd = 8, .n_positions = 4, .vocab_size = 17};
  const Work work{.steps = 5, .micro_batches = 4, .seq_len = 4};
  Options options = small_options(work);
  const std::string run = ::testing::TempDir() + "save_async_" + std::to_string(getpid());
};

// 96 seeds in all. Each unit is written late: its next update waits, which may be a draft
// to where the save reads.
TEST_F(SaveAsync, HoldsTheStepItWasAskedForAtWhateverComesNext) {
  uint64_t seed = 0;
  for (const int ranks : {1, 2, 4}) {
    for (const Kept& kept : kKept) {
      Options mine = options;
      mine.deterministic = true;
      mine.micro_batches_per_rank = work.micro_batches / ranks;
      kept.choose(mine);
      const Left sync =
          train_and_save(ranks, mine, [&](Engine& engine, const SavedState& state) {
            const auto save = save_async(engine, run, state);
            save->wait();
            return save;
          });
      EXPECT_THAT(sync.manifest, HasSubstr("exp_avg_sq"));
      for (int i = 0; i < 8; ++i) {
        mine.chaos_seed = ++seed;
        set_delays({{"save", i % 3}});
        SCOPED_TRACE(std::string(kept.name) + ", " + std::to_string(ranks) +
                     " ranks, seed " + std::to_string(seed));
        const Left async = train_and_save_async(ranks, mine);
        EXPECT_EQ(async.manifest, sync.manifest);
        expect_same(async.trained, sync.trained);
      }
    }
  }
}

// --- on two ranks

class TwoRanks : public SaveAsync {
 protected:
  void train_two(const std::function<void(Engine&, int step)>& after_step) {
    options.micro_batches_per_rank = work.micro_batches / 2;
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl&, int step) {
      after_step(engine, step);
    };
    train(2, options, work, hooks, tiny);
  }
  std::shared_ptr<Save> save(Engine& engine, int64_t step, SaveOptions how = {}) const {
    SavedState state;
    state.step = step;
    return save_async(engine, run, state, how);
  }
  static std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(TwoRanks, AllKnowAtTheSameStepThatItIsDone) {
  set_delays({{"save", 5}});
  options.micro_batches_per_rank = 1;
  std::array<int64_t, 2> known_at{};
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    const int rank = ranks->rank();
    auto model = deferred_gpt2(tiny);
    Engine engine(model, options, std::move(ranks));
    const auto saved = save(engine, 1);
    EXPECT_FALSE(saved->is_done());
    for (int step = 0; step < 10000 && !saved->is_done(); ++step) {
      const auto [tokens, targets] = batch_of(work, 17, step, rank);
      engine.backward(engine.forward(model, tokens, targets), 4);
      engine.step();
    }
    known_at[rank] = engine.num_steps();
    EXPECT_TRUE(saved->is_done());
    EXPECT_EQ(saved->wait(), run + "/step_000000000001");
    EXPECT_EQ(saved->error(), nullptr);
    EXPECT_GT(saved->seconds(), 0);
  });
  EXPECT_EQ(known_at[0], known_at[1]);
}

TEST_F(TwoRanks, AFailureIsAnErrorOfTheStepThatFindsItOut) {
  std::array<std::shared_ptr<Save>, 2> saves;
  options.micro_batches_per_rank = 1;
  on_ranks(2, [&](std::unique_ptr<Ranks> ranks) {
    const int rank = ranks->rank();
    auto model = deferred_gpt2(tiny);
    Engine engine(model, options, std::move(ranks));
    const auto step = [&] {
      const auto [tokens, targets] = batch_of(work, 17, 0, rank);
      engine.backward(engine.forward(model, tokens, targets), 4);
      engine.step();
    };
    save(engine, 7)->wait();
    saves[rank] = save(engine, 7);  // it is there already
    engine.shards();                // waits for it, and tells nobody
    EXPECT_FALSE(saves[rank]->is_done());
    EXPECT_THAT(error_of(step), HasSubstr("this step has been saved already"));
    EXPECT_EQ(engine.num_steps(), 1);
    EXPECT_TRUE(saves[rank]->is_done());
    EXPECT_NE(saves[rank]->error(), nullptr);
    step();
    // The same of a save whose step shall not throw: the next save tells.
    save(engine, 7, {.step_throws = false});
    engine.shards();
    step();
    step();
    EXPECT_THAT(error_of([&] { save(engine, 8); }), HasSubstr("saved already"));
    save(engine, 8)->wait();
    EXPECT_EQ(engine.num_steps(), 4);
  });
  for (const auto& failed : saves)
    EXPECT_THAT(error_of([&] { failed->wait(); }), HasSubstr("saved already"));
}

// One fp32 rank computes with its masters, which a forward may change. The first one does
// so when a save is under way, and others.
TEST_F(SaveAsync, HoldsWhatAForwardChangesBesideIt) {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.recompute = Recompute::kNone;
  auto model = std::make_shared<ChangingImpl>();
  Engine engine(model, options);
  const auto save_beside_forward = [&](int64_t step) {
    const at::Tensor w = engine.full_parameter("block.w").clone(),
                     v = engine.full_parameter("v").clone();
    set_delays({{"save", 50}});
    const auto save = save_async(engine, run, {.step = step});
    engine.backward(engine.forward(model, torch::ones({64})), 1);
    set_delays({});
    engine.step();
    const std::string path = save->wait();
    auto read = std::make_shared<ChangingImpl>();
    Engine other(read, options);
    load_checkpoint(other, path);
    EXPECT_TRUE(other.full_parameter("block.w").equal(w)) << step;
    EXPECT_TRUE(other.full_parameter("v").equal(v)) << step;
  };
  for (int64_t step = 0; step < 3; ++step) save_beside_forward(step);
}

// The first one writes 64 MiB more than each of the others. These are seconds of a core,
// which a busy machine does not stretch.
TEST_F(SaveAsync, EachIsToldTheSecondsOfItsOwnWork) {
  Engine engine(deferred_gpt2(tiny), options);
  const auto seconds_of = [&](const SavedState& state) {
    const auto save = save_async(engine, run, state);
    save->wait();
    return save->cpu_seconds();
  };
  SavedState large{.step = 1};
  large.user["large"].resize(64 << 20);
  const double of_large = seconds_of(large);
  EXPECT_LT(std::min({seconds_of({.step = 2}), seconds_of({.step = 3}),
                      seconds_of({.step = 4})}),
            of_large);
}

TEST_F(TwoRanks, OneWaitsForTheOther) {
  set_delays({{"save", 5}});
  train_two([&](Engine& engine, int step) {
    const auto last = save(engine, step);
    if (step != 2) return;
    save(engine, 100);
    EXPECT_TRUE(last->is_done());
  });
  EXPECT_TRUE(fs::exists(run + "/step_000000000002/manifest.json"));
  EXPECT_TRUE(fs::exists(run + "/step_000000000100/manifest.json"));
  EXPECT_TRUE(fs::exists(run + "/step_000000000004/manifest.json"));  // its engine waited
}

TEST_F(TwoRanks, WhoFollowsIsCalledOnceItIsThere) {
  std::vector<std::string> paths;
  train_two([&](Engine& engine, int step) {
    const auto note = [&](const std::string& path) {
      EXPECT_TRUE(fs::exists(path + "/manifest.json"));
      paths.push_back(path);
    };
    if (step == 1) save(engine, 2, {.after = note})->wait();
    if (step < 2) return;
    const auto fail = [](const std::string&) { throw std::runtime_error("no room"); };
    const auto failed = save(engine, step + 1, {.step_throws = false, .after = fail});
    EXPECT_THAT(error_of([&] { failed->wait(); }), HasSubstr("no room"));
  });
  EXPECT_THAT(paths, ::testing::ElementsAre(run + "/step_000000000002"));
}

// What is loaded, set or looked at is not what a save reads.
TEST_F(TwoRanks, WhoWritesValuesWaitsForIt) {
  set_delays({{"save", 20}});
  std::string path;
  train_two([&](Engine& engine, int step) {
    if (step > 0) return;
    const std::string fqn = "transformer.h.1.ln_1.weight";
    const std::string before = save(engine, 1)->wait();
    const auto again = save(engine, 2);
    engine.set_full_parameter(fqn, torch::zeros({8}));
    again->wait();
    load_checkpoint(engine, before);
    const auto values = engine.full_parameter(fqn);
    load_checkpoint(engine, again->wait());
    EXPECT_TRUE(torch::equal(values, engine.full_parameter(fqn)));
  });
}

}  // namespace
}  // namespace zero::testing::save_async_test
