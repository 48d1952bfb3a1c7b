#include "launcher/plan/advice.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher::advice_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// Those that are not recomputed, and one that is.
int64_t kept_layers(int64_t layers, int64_t every) {
  return every == 0 ? layers : layers - (layers + every - 1) / every + 1;
}

// A model whose memory is easy to tell: 16 bytes a parameter over all ranks, a ring of
// one layer a rank and slot, and activations of a row and layer.
RunPlan plan_of(const Wish& wish) {
  const ModelShape& shape = wish.shape;
  const Settings& settings = wish.settings;
  const int64_t layer = 12 * shape.dim() * shape.dim();
  RunPlan plan;
  plan.shape = shape;
  plan.num_ranks = wish.num_ranks;
  plan.ranks_on_node = wish.ranks_on_node;
  plan.num_parameters = shape.layers() * layer;
  plan.engine = {
      {"state", "host", 16 * plan.num_parameters / wish.num_ranks},
      {"ring", "device",
       wish.num_ranks == 1 ? 0 : 4 * layer * (1 + *parse_prefetch(settings.prefetch))}};
  plan.activations = settings.micro_batch * shape.dim() * 1024 *
                     kept_layers(shape.layers(), *parse_recompute(settings.recompute));
  return plan;
}

Wish wish_for(int64_t room) {
  Wish wish;
  wish.shape.keys = {.layers = "layers", .dim = "dim", .heads = "heads"};
  wish.shape.config = {{"layers", 8}, {"dim", 512}, {"heads", 8}};
  wish.settings.recompute = "none";
  wish.settings.prefetch = "1";
  wish.settings.micro_batch = 8;
  wish.settings.global_batch = 32;
  wish.room = room;
  return wish;
}

constexpr int64_t kState = 16 * 8 * 12 * 512 * 512;  // 384 MiB

TEST(Advice, OneChangeWhereOneSuffices) {
  const auto fit = nearest_fit(wish_for(kState + 8 * kMiB), plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(to_text(*fit), "--recompute unit");
  EXPECT_EQ(fit->wish.settings.recompute, "unit");
}

TEST(Advice, NoMoreUnitsAreRecomputedThanItTakes) {
  EXPECT_EQ(to_text(*nearest_fit(wish_for(kState + 31 * kMiB), plan_of)),
            "--recompute every:4");
  EXPECT_EQ(to_text(*nearest_fit(wish_for(kState + 20 * kMiB), plan_of)),
            "--recompute every:2");
  Wish wish = wish_for(kState + 23 * kMiB);
  wish.settings.recompute = "every:3";
  EXPECT_EQ(to_text(*nearest_fit(wish, plan_of)), "--recompute every:2");
  wish.room = kState + 19 * kMiB;
  EXPECT_EQ(to_text(*nearest_fit(wish, plan_of)), "--recompute unit");
}

TEST(Advice, ASmallerPassDividesTheBatch) {
  Wish wish = wish_for(kState + 2 * kMiB);
  wish.settings.recompute = "unit";  // 4 MiB of activations
  const auto fit = nearest_fit(wish, plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(to_text(*fit), "--micro-batch 4");
  wish.room = kState + 4 * kMiB - 1;
  wish.settings.global_batch = 24;  // 7 would do, and leave a rest
  EXPECT_EQ(to_text(*nearest_fit(wish, plan_of)), "--micro-batch 6");
}

TEST(Advice, LogitsInChunksAndASplitMasterComeLast) {
  const Planner with_logits = [](const Wish& wish) {
    RunPlan plan = plan_of(wish);
    if (wish.settings.loss_chunk == 0) plan.activations += 64 * kMiB;
    if (wish.settings.master == "split") plan.engine[0].bytes -= plan.num_parameters * 2;
    return plan;
  };
  Wish wish = wish_for(kState + 32 * kMiB);
  EXPECT_EQ(to_text(*nearest_fit(wish, with_logits)), "--loss-chunk 1024");
  wish.room = kState - 8 * kMiB;
  wish.settings.loss_chunk = 256;
  wish.settings.dtype = "bf16";
  EXPECT_THAT(to_text(*nearest_fit(wish, with_logits)), "--master split");
  wish.settings.dtype = "fp32";
  EXPECT_THAT(to_text(*nearest_fit(wish, with_logits)), HasSubstr("nodes"));
}

TEST(Advice, NoMoreChangesThanItTakes) {
  const auto fit = nearest_fit(wish_for(kState + kMiB), plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(to_text(*fit), "--micro-batch 1 --recompute unit");
}

TEST(Advice, ARankAloneNeedsNoRing) {
  Wish wish = wish_for(kState + 8 * kMiB);
  wish.num_ranks = wish.ranks_on_node = 4;
  wish.settings.ranks = 4;
  const auto fit = nearest_fit(wish, plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->wish.num_ranks, 1);
  EXPECT_THAT(to_text(*fit), HasSubstr("--ranks 1"));
}

TEST(Advice, MoreNodesWhereNothingElseHelps) {
  const auto fit = nearest_fit(wish_for(kState / 2), plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->num_nodes, 4);  // two have no room for rings, three share no batch
  EXPECT_THAT(to_text(*fit), HasSubstr("4 nodes like this one:"));
  EXPECT_THAT(to_text(*fit), HasSubstr("--ranks 4"));
  EXPECT_TRUE(fits(fit->plan, fit->wish));
}

// On one node with too little room, and a batch of so many samples: it feeds no more.
Wish wish_of_all_ranks(int ranks) {
  Wish wish = wish_for(kState * 3 / 4);
  wish.num_ranks = wish.ranks_on_node = ranks;
  wish.settings.ranks = wish.settings.global_batch = ranks;
  wish.settings.micro_batch = 1;
  wish.settings.recompute = "unit";
  wish.settings.prefetch = "0";
  return wish;
}

TEST(Advice, TheSameRanksOnMoreNodesWhereTheBatchAllowsNoMore) {
  const auto fit = nearest_fit(wish_of_all_ranks(4), plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->num_nodes, 2);
  EXPECT_EQ(fit->wish.num_ranks, 4);
  EXPECT_EQ(to_text(*fit), "2 nodes like this one, with 2 of the ranks each");
  EXPECT_TRUE(fits(fit->plan, fit->wish));
}

TEST(Advice, OddRanksAreDealtToNodesThatHaveRoomForMostOfThem) {
  const auto fit = nearest_fit(wish_of_all_ranks(3), plan_of);
  ASSERT_TRUE(fit);
  EXPECT_EQ(to_text(*fit), "2 nodes like this one, with 2 of the ranks each");
}

TEST(Advice, FewerRanksAreForOneNodeAlone) {
  Wish wish = wish_for(kState + 8 * kMiB);
  wish.num_ranks = 4;
  wish.ranks_on_node = 2;
  wish.settings.ranks = 4;
  for (; wish.room > kState / 4; wish.room -= kState / 16) {
    const auto fit = nearest_fit(wish, plan_of);
    EXPECT_TRUE(!fit || fit->wish.num_ranks >= 4) << wish.room;
  }
}

TEST(Advice, InputsAreOffloadedWhereTheyAreRecomputedFrom) {
  Wish wish = wish_for(kState + 100 * kMiB);
  wish.gpu_room = 1000 * kMiB + kCudaBytes;
  const auto plan = [](const Wish& each) {
    RunPlan planned = plan_of(each);
    planned.on_gpu = true;
    planned.activations = each.settings.offload_activations ? 0 : 1001 * kMiB;
    return planned;
  };
  const auto fit = nearest_fit(wish, plan);
  ASSERT_TRUE(fit);
  EXPECT_TRUE(fit->wish.settings.offload_activations);
  EXPECT_NE(fit->wish.settings.recompute, "none");
}

TEST(Advice, TheHeadsOfKeysDivideTheHeads) {
  Wish wish = wish_for(kState);
  wish.shape.keys.kv_heads = "kv_heads";
  wish.shape.config["kv_heads"] = 4;
  for (int64_t room = kState; room < 8 * kState; room += kState / 2) {
    wish.room = room;
    const auto largest = largest_fit(wish, plan_of);
    ASSERT_TRUE(largest);
    EXPECT_EQ(largest->shape.heads() % largest->shape.kv_heads(), 0) << room;
  }
}

TEST(Advice, NoOtherNumberOfHeadsIsLarger) {
  Wish wish = wish_for(0);
  wish.shape.keys.kv_heads = "kv_heads";
  const auto with_heads = [](int64_t heads) {
    return nlohmann::json{{"layers", heads},
                          {"dim", 64 * heads},
                          {"heads", heads},
                          {"kv_heads", std::max<int64_t>(1, std::llround(heads / 3.0))}};
  };
  wish.shape.config = with_heads(9);
  for (wish.room = 2 * kMiB; wish.room < 16 * kState; wish.room += wish.room / 4) {
    int64_t most = 0;
    for (int64_t heads = 1; heads < 60; ++heads) {
      Wish each = wish;
      each.shape.config = with_heads(heads);
      if (heads % each.shape.kv_heads() == 0 && fits(plan_of(each), wish)) most = heads;
    }
    const auto largest = largest_fit(wish, plan_of);
    ASSERT_TRUE(largest) << wish.room;
    EXPECT_EQ(largest->shape.heads(), most) << wish.room;
  }
}

TEST(Advice, AModelThatItsFamilyRefusesIsTooLarge) {
  ExitCode code = ExitCode::kUsage;
  const Planner plan = [&](const Wish& wish) {
    if (wish.shape.layers() > 20) throw Error(code, "more than 20 layers");
    return plan_of(wish);
  };
  EXPECT_EQ(largest_fit(wish_for(1000 * kState), plan)->shape.layers(), 20);
  code = ExitCode::kInterrupted;
  EXPECT_THROW(largest_fit(wish_for(1000 * kState), plan), Error);
}

TEST(Advice, ListsOfLayersGrowInProportion) {
  Wish wish = wish_for(4 * kState);
  wish.shape.config["types"] = {"a", "a", "a", "a", "a", "a", "b", "b"};
  wish.shape.config["others"] = {"c"};
  const ModelShape shape = largest_fit(wish, plan_of)->shape;
  const nlohmann::json& types = shape.config.at("types");
  ASSERT_GT(shape.layers(), 8);
  ASSERT_EQ(std::ssize(types), shape.layers());
  for (int64_t i = 0; i < shape.layers(); ++i)
    EXPECT_EQ(types[i], 4 * i < 3 * shape.layers() ? "a" : "b") << i;
  EXPECT_EQ(shape.config.at("others").size(), 1u);
}

// They see the samples of a pass together.
TEST(Advice, ModelsWithBatchNormsKeepPassesAndRanks) {
  Wish wish = wish_for(0);
  wish.task = Task::kImages;
  wish.num_ranks = wish.ranks_on_node = wish.settings.ranks = 4;
  int num_fits = 0;
  for (wish.room = kState / 4; wish.room < 2 * kState; wish.room += kState / 16) {
    const auto fit = nearest_fit(wish, plan_of);
    if (!fit) continue;
    ++num_fits;
    EXPECT_EQ(fit->wish.num_ranks, 4) << wish.room;
    EXPECT_EQ(fit->wish.settings.micro_batch, 8) << wish.room;
  }
  EXPECT_GT(num_fits, 0);
}

TEST(Advice, NothingWhereNoNodeHoldsARing) {
  Wish wish = wish_for(kMiB);
  EXPECT_FALSE(nearest_fit(wish, plan_of));
  EXPECT_THAT(memory_advice(wish, plan_of), HasSubstr("--ignore-plan"));
}

TEST(Advice, WhatIsAdvisedFitsAndNothingNearerDoes) {
  for (int64_t room = kState / 4; room < 2 * kState; room += kState / 16) {
    const Wish wish = wish_for(room);
    if (fits(plan_of(wish), wish)) continue;
    const auto fit = nearest_fit(wish, plan_of);
    ASSERT_TRUE(fit) << room;
    EXPECT_TRUE(fits(plan_of(fit->wish), fit->wish)) << room;
    EXPECT_FALSE(fit->changes.empty()) << room;
  }
}

TEST(Advice, TheLargestModelKeepsItsProportions) {
  const Wish wish = wish_for(8 * kState);
  const auto largest = largest_fit(wish, plan_of);
  ASSERT_TRUE(largest);
  EXPECT_TRUE(fits(*largest, wish));
  EXPECT_EQ(largest->shape.dim(), 64 * largest->shape.heads());
  EXPECT_EQ(largest->shape.layers(), largest->shape.heads());
  Wish next = wish;
  next.shape = largest->shape;
  next.shape.config = {{"layers", largest->shape.layers() + 1},
                       {"dim", largest->shape.dim() + 64},
                       {"heads", largest->shape.heads() + 1}};
  EXPECT_FALSE(fits(plan_of(next), wish));
}

TEST(Advice, TheLargestModelIsWhole) {
  Wish wish = wish_for(8 * kState);
  wish.shape.config[kParts] = {"embed", "layers=0:1", "head"};
  EXPECT_FALSE(largest_fit(wish, plan_of)->shape.config.contains(kParts));
}

TEST(Advice, AModelWithoutHeadsGrowsAsWell) {
  Wish wish = wish_for(8 * kState);
  wish.shape.keys.heads = "";
  const auto largest = largest_fit(wish, plan_of);
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->shape.heads(), 0);
  EXPECT_GE(largest->shape.dim(), wish.shape.dim());
}

TEST(Advice, NoModelFitsNothing) { EXPECT_FALSE(largest_fit(wish_for(1000), plan_of)); }

// By as little as it takes, and only where something is frozen.
TEST(Advice, FrozenWeightsAreRoundedLast) {
  const Planner of_frozen = [](const Wish& wish) {
    RunPlan plan = plan_of(wish);
    const std::string& type = wish.settings.frozen_dtype;
    const int64_t bytes = type == "int8" ? 1 : type == "bf16" || type == "fp16" ? 2 : 4;
    plan.engine[0].bytes += bytes * plan.num_parameters;
    return plan;
  };
  constexpr int64_t kByte = kState / 16;  // of each parameter
  Wish wish = wish_for(kState + 2 * kByte + kMiB);
  wish.settings.recompute = "unit";  // nothing else saves anything
  wish.settings.micro_batch = 1;
  EXPECT_FALSE(nearest_fit(wish, of_frozen) &&
               to_text(*nearest_fit(wish, of_frozen)).find("frozen") !=
                   std::string::npos);
  wish.settings.freeze = {"h.0.*"};
  wish.settings.frozen_dtype = "fp32";
  EXPECT_EQ(to_text(*nearest_fit(wish, of_frozen)), "--frozen-dtype bf16");
  wish.settings.dtype = "fp16";
  EXPECT_EQ(to_text(*nearest_fit(wish, of_frozen)), "--frozen-dtype fp16");
  wish.room -= kByte;
  EXPECT_EQ(to_text(*nearest_fit(wish, of_frozen)), "--frozen-dtype int8");
  wish.settings.frozen_dtype = "bf16";
  EXPECT_EQ(to_text(*nearest_fit(wish, of_frozen)), "--frozen-dtype int8");
}

TEST(Advice, DraftsThatWereToldGoFirst) {
  Wish wish = wish_for(kState + 100 * kMiB);
  wish.settings.speculate = "1GiB";
  const auto plan = [](const Wish& each) {
    RunPlan planned = plan_of(each);
    if (each.settings.speculate != "off")
      planned.engine.push_back({"drafts", "host", 1 << 30});
    return planned;
  };
  EXPECT_EQ(to_text(*nearest_fit(wish, plan)), "--speculate off");
}

TEST(Advice, GroupsThatHoldTooMuchOfTheWeightsBecomeWider) {
  Wish wish = wish_for(0);
  wish.num_ranks = wish.ranks_on_node = wish.settings.ranks = 4;
  wish.settings.recompute = "unit";
  const auto plan = [](const Wish& each) {
    RunPlan planned = plan_of(each);
    const int group = parse_shard_over(each.settings.shard_over).value();
    planned.engine.push_back(
        {"weights", "host", 240 * kMiB / (group > 0 ? group : each.num_ranks)});
    return planned;
  };
  wish.settings.shard_over = "2";
  wish.room = plan(wish).node_bytes();
  EXPECT_TRUE(fits(plan(wish), wish));
  wish.settings.shard_over = "1";
  EXPECT_FALSE(fits(plan(wish), wish));
  EXPECT_EQ(to_text(*nearest_fit(wish, plan)), "--shard-over 2");
}

TEST(Advice, AGpuThatWasToldToKeepTooMuchChooses) {
  Wish wish = wish_for(kState + 100 * kMiB);
  wish.gpu_room = 1000 * kMiB;
  wish.settings.offload = "none";
  const auto plan = [](const Wish& each) {
    RunPlan planned = plan_of(each);
    planned.on_gpu = true;
    if (each.settings.offload == "none") planned.engine[0].tier = "device";
    return planned;
  };
  EXPECT_FALSE(fits(plan(wish), wish));
  EXPECT_EQ(to_text(*nearest_fit(wish, plan)), "--offload auto");
}

}  // namespace
}  // namespace zero::launcher::advice_test
