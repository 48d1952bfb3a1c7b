// Ranks in groups that gather weights among themselves: the numbers of one rank.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/device/host_device.h"
#include "tests/engine/traffic_story.h"
#include "tests/engine/training.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::testing::engine_groups_test {
namespace {

namespace fs = std::filesystem;

// Ranks, and of them in a group.
constexpr std::pair<int, int> kPairs[] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2},
                                          {4, 4}, {8, 1}, {8, 2}, {8, 4}, {8, 8}};

class EngineGroups : public ::testing::Test {
 protected:
  EngineGroups() {
    work = {.steps = 3, .micro_batches = 8, .seq_len = 16};
    options = small_options(work);
  }
  ~EngineGroups() override { set_delays({}); }

  Trained train_on(int ranks, int group) {
    options.shard_ranks = group;
    return train(ranks, options, work);
  }

  Work work;
  Options options;
};

TEST_F(EngineGroups, DeterministicBitsAreThoseOfOneRank) {
  options.deterministic = true;
  const Trained one = train_on(1, 0);
  for (const auto& [ranks, group] : kPairs) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks in groups of " + std::to_string(group));
    expect_same(train_on(ranks, group), one);
  }
}

TEST_F(EngineGroups, SoAreThoseOfBf16WithWeightsThatStreamOrStay) {
  options.deterministic = true;
  options.dtype = DType::kBf16;
  work.masks_targets = true;
  const Trained one = train_on(1, 0);
  for (const bool streams : {false, true}) {
    options.stream_always = streams;
    options.chaos_seed = streams ? 7 : 0;
    for (const int group : {1, 2}) expect_same(train_on(4, group), one);
  }
}

TEST_F(EngineGroups, AnyGroupsEqualTheUnshardedModule) {
  work.micro_batches = 12;
  const Trained reference = train_unsharded(options, work, /*exact=*/false);
  expect_close(train_on(6, 2), reference);
  expect_close(train_on(6, 3), reference);
  expect_close(train_on(3, 1), reference);
}

TEST_F(EngineGroups, RoundedSumsStayNearThoseOfFp32) {
  const Trained reference = train_on(4, 2);
  options.grad_dtype = options.reduce_dtype = DType::kBf16;
  for (const int group : {1, 2}) {
    const Trained rounded = train_on(4, group);
    for (int step = 0; step < work.steps; ++step) {
      EXPECT_NE(rounded.norms[step], reference.norms[step]);
      EXPECT_NEAR(rounded.norms[step] / reference.norms[step], 1, 1e-2);
      EXPECT_NEAR(rounded.losses[step], reference.losses[step], 1e-2);
    }
  }
}

TEST_F(EngineGroups, BytesAreThePlans) {
  Hooks hooks;
  hooks.after_step = [](Engine& engine, Gpt2Impl&, int) { expect_planned_bytes(engine); };
  for (const bool is_deterministic : {false, true}) {
    options.deterministic = is_deterministic;
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      options.dtype = dtype;
      options.master =
          dtype == DType::kBf16 ? MasterStorage::kSplit : MasterStorage::kFp32;
      for (const int group : {1, 2}) {
        options.shard_ranks = group;
        train(4, options, work, hooks);
      }
    }
  }
}

TEST_F(EngineGroups, TrafficIsThePlans) {
  const Options base = small_options(Work{.rows = 4});
  for (const int group : {1, 2}) {
    options = base;
    options.shard_ranks = group;
    expect_planned_traffic_throughout(4, options);
  }
}

// Whoever looks between steps sees all ranks' slices in their places.
TEST_F(EngineGroups, WholeParametersAreInOrder) {
  options.shard_ranks = 2;
  on_ranks(4, [&](std::unique_ptr<Ranks> comm) {
    const auto model = deferred_gpt2(small_gpt2());
    Engine engine(model, options, std::move(comm));
    const at::Tensor value = at::arange(257 * 64, at::kFloat).view({257, 64});
    engine.set_full_parameter("transformer.wte.weight", value);
    EXPECT_TRUE(engine.full_parameter("transformer.wte.weight").equal(value));
  });
}

// Frozen weights change when somebody sets them, and then go to all groups again.
TEST_F(EngineGroups, FrozenWeightsThatAreSetAreSeenByAllGroups) {
  options.groups = {{"*.h.1.*", 1, {}, /*frozen=*/true}};
  const auto loss_after_set = [&](int ranks, int group) {
    options.shard_ranks = group;
    double loss = 0;
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      const bool is_first = comm->rank() == 0;
      const auto model = deferred_gpt2(small_gpt2());
      Engine engine(model, options, std::move(comm));
      const auto [tokens, targets] = batch_of(work, 257, 0, 0);
      const std::string fqn = "transformer.h.1.mlp.c_fc.weight";
      double last = 0;
      for (const double factor : {1.0, -3.0}) {
        engine.set_full_parameter(fqn, engine.full_parameter(fqn) * factor);
        const torch::NoGradGuard no_grad;
        last = engine.forward(model, tokens, targets).item<double>();
      }
      if (is_first) loss = last;
    });
    return loss;
  };
  EXPECT_EQ(loss_after_set(4, 2), loss_after_set(1, 0));
  EXPECT_EQ(loss_after_set(4, 1), loss_after_set(1, 0));
}

// All ordered pairs: what ranks in some groups save, any others go on with.
TEST_F(EngineGroups, AnyGroupsGoOnWithWhatOthersSaved) {
  options.deterministic = true;
  Gpt2Config tiny = small_gpt2();
  tiny.n_layer = 1;
  const fs::path folder =
      fs::temp_directory_path() / ("zero_groups_" + std::to_string(getpid()));
  // One step more than `from`, if there is one, saved to `to` or returned.
  const auto step_on = [&](const std::pair<int, int>& mesh, const fs::path& from,
                           const fs::path& to) {
    Trained run;
    options.shard_ranks = mesh.second;
    options.micro_batches_per_rank = work.micro_batches / mesh.first;
    on_ranks(mesh.first, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      const auto model = deferred_gpt2(tiny);
      Engine engine(model, options, std::move(comm));
      if (!from.empty()) load_checkpoint(engine, from);
      for (int64_t p = 0; p < options.micro_batches_per_rank; ++p) {
        const auto m = static_cast<int>(
            engine.mesh().micro_batch(rank, p, options.micro_batches_per_rank));
        const auto [tokens, targets] =
            batch_of(work, tiny.vocab_size, from.empty() ? 0 : 1, m);
        engine.backward(engine.forward(model, tokens, targets), targets.numel());
      }
      engine.step();
      if (to.empty()) return collect_shards(engine, run);
      SavedState state;
      state.step = 1;
      save_checkpoint(engine, to.string(), state);
    });
    return run;
  };
  const auto folder_of = [&](const std::pair<int, int>& mesh) {
    return folder / (std::to_string(mesh.first) + "_" + std::to_string(mesh.second));
  };
  for (const auto& mesh : kPairs) step_on(mesh, {}, folder_of(mesh));
  const Trained expected = step_on({1, 1}, folder_of({1, 1}) / "step_000000000001", {});
  for (const auto& saved : kPairs) {
    for (const auto& loaded : kPairs) {
      SCOPED_TRACE(folder_of(saved).filename().string() + " by " +
                   folder_of(loaded).filename().string());
      expect_same(step_on(loaded, folder_of(saved) / "step_000000000001", {}), expected);
    }
  }
  fs::remove_all(folder);
}

TEST_F(EngineGroups, FrozenWeightsAreExchangedOnce) {
  const auto sizes = [] {
    return std::make_shared<SizesImpl>(std::vector<int64_t>{300, 300, 300, 300});
  };
  options.groups = {{"units.2.*", 1, {}, /*frozen=*/true}};
  options.shard_ranks = 2;
  expect_planned_traffic(4, options, sizes, torch::ones({64}));
}

TEST_F(EngineGroups, PassesBeyondThePlannedOnesAreRefused) {
  options.shard_ranks = 1;
  options.micro_batches_per_rank = 1;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto model = deferred_gpt2(small_gpt2());
    Engine engine(model, options, std::move(comm));
    const auto [tokens, targets] = batch_of(work, 257, 0, 0);
    engine.backward(engine.forward(model, tokens, targets), 16);
    const at::Tensor loss = engine.forward(model, tokens, targets);
    EXPECT_THROW(engine.backward(loss, 16), Error);
    engine.step();
  });
}

// In this process all ranks are on one host.
TEST_F(EngineGroups, TheRanksOfAHostMayBeTheGroup) {
  options.shard_ranks = kRanksOfHost;
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const auto model = deferred_gpt2(small_gpt2());
    const Engine engine(model, options, std::move(comm));
    EXPECT_EQ(engine.mesh(), Mesh(2, 2));
    EXPECT_EQ(engine.options().shard_ranks, 2);
  });
}

TEST_F(EngineGroups, HostsWithDifferentNumbersOfRanksArePlannedForByNobody) {
  options.shard_ranks = kRanksOfHost;
  const auto model = deferred_gpt2(small_gpt2());
  EXPECT_FALSE(plan(*model, options, 4, /*ranks_of_host=*/2).empty());
  try {
    plan(*model, options, 3, /*ranks_of_host=*/2);
    ADD_FAILURE() << "it was planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(),
              "hosts have different numbers of ranks: 2 on one, 3 in all");
  }
}

}  // namespace
}  // namespace zero::testing::engine_groups_test
