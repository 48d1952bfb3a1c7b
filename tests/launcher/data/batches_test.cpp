#include "launcher/data/batches.h"

#include <gmock/gmock.h>

#include <set>

#include "launcher/data/sampler.h"
#include "launcher/data/token_source.h"
#include "launcher/settings/derived.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::batches_test {
namespace {

using ::testing::ElementsAre;

TEST(Batches, MicroBatchesAreDealtOutInTurn) {
  const BatchPlan second_of_two{12, 2, 2, 1};
  EXPECT_EQ(num_passes(second_of_two), 3);
  EXPECT_EQ(first_sample(second_of_two, 0, 0), 2);
  EXPECT_EQ(first_sample(second_of_two, 0, 1), 6);
  EXPECT_EQ(first_sample(second_of_two, 5, 2), 70);
}

TEST(Batches, EverySampleOnceOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 4, 6}) {
    std::multiset<int64_t> firsts;
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan{24, 2, ranks, rank};
      for (int64_t pass = 0; pass < num_passes(plan); ++pass)
        firsts.insert(first_sample(plan, 7, pass));
    }
    EXPECT_EQ(firsts.size(), 12u);
    EXPECT_EQ(*firsts.begin(), 7 * 24);
    EXPECT_EQ(*firsts.rbegin(), 8 * 24 - 2);
    EXPECT_EQ(std::set(firsts.begin(), firsts.end()).size(), 12u) << ranks;
  }
}

class BatchesOfText : public ::testing::Test {
 protected:
  TempFolder folder;
  data::TokenSource source{{folder.write("a.txt", "abcdefghijklmnopqrstuvwxyz")}};
  data::Sampler sampler{source, data::SamplerOptions{2, false, 0}};
};

TEST_F(BatchesOfText, TargetsAreTheNextTokens) {
  const Batch batch = read_passes(sampler, {4, 2, 1, 0}, 2, 0, 1, 1);
  EXPECT_THAT(batch.inputs, ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_THAT(batch.targets, ElementsAre('f', 'g', 'h', 'i'));
  EXPECT_EQ(batch.num_targets(), 4);
}

TEST_F(BatchesOfText, AllPassesAreThePassesInOrder) {
  const BatchPlan plan{8, 2, 2, 1};
  const Batch all = read_passes(sampler, plan, 2, 0, 0, num_passes(plan));
  EXPECT_EQ(all.rows, 4);
  std::vector<int64_t> joined;
  for (int64_t pass = 0; pass < 2; ++pass) {
    const Batch one = read_passes(sampler, plan, 2, 0, pass, 1);
    joined.insert(joined.end(), one.inputs.begin(), one.inputs.end());
  }
  EXPECT_EQ(all.inputs, joined);
}

TEST(Batches, EmptyRowsCountForNothing) { EXPECT_EQ(empty_batch(2, 3).num_targets(), 0); }

TEST(EngineOptions, FollowTheSettings) {
  Settings settings;
  settings.dtype = "bf16";
  settings.master = "split";
  settings.state_dtype = "bf16";
  settings.schedule = "wsd";
  settings.decay_steps = 7;
  settings.freeze = {"wte*"};
  settings.pin = "transfers";
  settings.accumulate = "unit";
  settings.micro_batch = 2;
  ModelShape shape;
  shape.seq_len = 32;
  ModelFamily family;
  family.init_rules = [](const ModelShape&) { return InitRules(); };
  const Options options = engine_options(settings, {16, 2, 2, 0}, shape, family);
  EXPECT_EQ(options.dtype, DType::kBf16);
  EXPECT_EQ(options.reduce_dtype, DType::kFp32);
  EXPECT_EQ(options.master, MasterStorage::kSplit);
  EXPECT_EQ(options.state_dtype, DType::kBf16);
  EXPECT_EQ(options.schedule.kind, LrSchedule::Kind::kWsd);
  EXPECT_EQ(options.schedule.total_steps, settings.steps);
  EXPECT_TRUE(options.groups.at(0).frozen);
  EXPECT_EQ(options.pin, Pin::kTransfers);
  EXPECT_EQ(options.accumulate, Accumulate::kUnit);
  EXPECT_EQ(options.micro_batch, 2);
  EXPECT_EQ(options.nominal_targets, 64);
  EXPECT_EQ(options.loss_scale, LossScaleOptions{});
}

TEST(EngineOptions, TheLossScaleIsTheSettings) {
  Settings settings;
  settings.dtype = "fp16";
  settings.loss_scale_init = 64;
  settings.loss_scale_window = 3;
  settings.loss_scale_min = 4;
  ModelFamily family;
  family.init_rules = [](const ModelShape&) { return InitRules(); };
  const Options options = engine_options(settings, {8, 4, 2, 0}, {}, family);
  EXPECT_EQ(options.dtype, DType::kFp16);
  EXPECT_EQ(options.loss_scale, (LossScaleOptions{64, 3, 4}));
}

}  // namespace
}  // namespace zero::launcher::batches_test
