#include "launcher/plan/plan_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace zero::launcher::plan_page_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = 1 << 30;

PlanAnswer answer(int64_t room) {
  PlanAnswer answer;
  answer.wish.room = room;
  answer.wish.settings.ranks = 2;
  answer.plan.settings.offload = "all";
  answer.plan.shape.keys.layers = "n_layer";
  answer.plan.shape.config = {{"n_layer", 12}};
  answer.plan.num_parameters = 124439808;
  answer.plan.num_ranks = 6;
  answer.plan.ranks_on_node = 2;
  answer.plan.engine = {{"masters", "host", kGiB}, {"gather ring", "device", kGiB}};
  answer.plan.activations = kGiB;
  return answer;
}

TEST(PlanPage, ShowsEveryOwnerPerRankAndPerNode) {
  const std::string page = to_page(answer(8 * kGiB));
  EXPECT_THAT(page, HasSubstr("124,439,808 parameters"));
  EXPECT_THAT(page, HasSubstr("6, 2 of them on a node"));
  EXPECT_THAT(page,
              HasSubstr("host     masters                    1.0 GiB      2.0 GiB"));
  EXPECT_THAT(page, HasSubstr("gather ring"));
  EXPECT_THAT(page, HasSubstr("activations, about"));
  EXPECT_THAT(page, HasSubstr("fits: 6.0 GiB needed, 8.0 GiB free on this host"));
  EXPECT_THAT(page, Not(HasSubstr("nearest")));
  EXPECT_THAT(page, Not(HasSubstr("kernels")));
}

TEST(PlanPage, TellsWhatTheVerdictRestsOn) {
  PlanAnswer of = answer(8 * kGiB);
  of.wish.settings.host_memory = 8 * kGiB;
  EXPECT_THAT(to_page(of), HasSubstr("fits: 6.0 GiB needed, 8.0 GiB (--host-memory)\n"));
  of.plan.activations = -1;
  EXPECT_THAT(to_page(of), HasSubstr("fits, activations apart: 4.0 GiB needed"));
}

TEST(PlanPage, WhatNoNumberHoldsIsTheLargest) {
  PlanAnswer of = answer(8 * kGiB);
  of.plan.activations = int64_t{1} << 62;
  EXPECT_THAT(to_page(of), Not(HasSubstr(" -")));
}

TEST(PlanPage, AStarterIsALineWhereThereIsOne) {
  PlanAnswer of = answer(8 * kGiB);
  EXPECT_THAT(to_page(of), Not(HasSubstr("starter")));
  of.plan.program.starter = kGiB;
  EXPECT_THAT(to_page(of),
              HasSubstr("host     starter of the ranks                    1.0 GiB\n"));
}

TEST(PlanPage, TheSumOfAHostHasNothingOfItsGpus) {
  PlanAnswer of = answer(8 * kGiB);
  of.plan.on_gpu = true;
  EXPECT_THAT(to_page(of),
              HasSubstr("host     all                        1.0 GiB      2.0 GiB\n"));
}

TEST(PlanPage, CountsTheKernelsThatAreKept) {
  PlanAnswer with = answer(8 * kGiB);
  with.plan.kernels = kGiB / 2;
  EXPECT_THAT(to_page(with),
              HasSubstr("host     kernels, at most         512.0 MiB      1.0 GiB"));
  EXPECT_THAT(to_page(with), HasSubstr("fits: 7.0 GiB needed"));
  EXPECT_EQ(to_json(with)["kernel_bytes_per_rank"], kGiB / 2);
}

TEST(PlanPage, TellsWhatATiedPairCosts) {
  PlanAnswer tied = answer(8 * kGiB);
  EXPECT_THAT(to_page(tied), Not(HasSubstr("tied")));
  tied.plan.engine.push_back({"root weights", "device", kGiB});
  tied.plan.shape.config["tie_word_embeddings"] = false;
  EXPECT_THAT(to_page(tied), Not(HasSubstr("tied")));
  tied.plan.shape.config["tie_word_embeddings"] = true;
  EXPECT_THAT(to_page(tied), HasSubstr("tied     embedding and head are one: 1.0 GiB"));
  tied.plan.shape.config[kParts] = {"layers=0:1"};
  EXPECT_THAT(to_page(tied), Not(HasSubstr("tied")));
}

TEST(PlanPage, TellsWhatEachGroupHoldsForInTheirOrder) {
  PlanAnswer of = answer(8 * kGiB);
  EXPECT_THAT(to_page(of), Not(HasSubstr("groups")));
  EXPECT_TRUE(to_json(of)["groups"].empty());
  of.plan.groups = {{"*.bias: freeze", {24, 50000}},
                    {"h.0.*: lr=0.1x", {4, 1234567}},
                    {"all others", {100, 123155241}}};
  EXPECT_THAT(to_page(of),
              HasSubstr("groups   *.bias: freeze: 24 parameter(s), 50,000 values\n"
                        "           h.0.*: lr=0.1x: 4 parameter(s), 1,234,567 values\n"
                        "           all others: 100 parameter(s), 123,155,241 values\n"));
  const nlohmann::json groups = to_json(of)["groups"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1],
            (nlohmann::json{
                {"group", "h.0.*: lr=0.1x"}, {"parameters", 4}, {"numel", 1234567}}));
  EXPECT_EQ(groups[2]["group"], "all others");
}

TEST(PlanPage, TellsBothKindsOfMemoryWhereAGpuComputes) {
  PlanAnswer small = answer(8 * kGiB);
  EXPECT_THAT(to_page(small), HasSubstr("device   CPU\n"));
  EXPECT_EQ(to_json(small)["device"], "cpu");
  small.plan.on_gpu = true;
  small.wish.gpu_room = 2 * kGiB;
  small.nearest = Fit{small.wish, small.plan, {}, 1};
  small.nearest->plan.activations = 0;
  const std::string page = to_page(small);
  EXPECT_THAT(
      page,
      HasSubstr("device   a GPU for each rank, to which weights stream (offload all)\n"));
  EXPECT_THAT(page,
              HasSubstr("2.0 GiB needed, 8.0 GiB free on this host; 2.8 GiB of a GPU "
                        "by each rank, 2.0 GiB free there"));
  EXPECT_THAT(page, HasSubstr("2.0 GiB, 1.8 GiB of a GPU"));
  EXPECT_EQ(to_json(small)["gpu_bytes_per_rank"], 2 * kGiB + kCudaBytes);
}

TEST(PlanPage, InputsInTheHostsMemoryAreALineOfTheirOwn) {
  PlanAnswer offloads = answer(10 * kGiB);
  EXPECT_THAT(to_page(offloads), Not(HasSubstr("offloaded")));
  EXPECT_EQ(to_json(offloads)["offloaded_bytes_per_rank"], 0);
  offloads.plan.offloaded = kGiB;
  EXPECT_THAT(to_page(offloads),
              HasSubstr("host     offloaded inputs, about     1.0 GiB      2.0 GiB"));
  EXPECT_THAT(to_page(offloads), HasSubstr("fits: 8.0 GiB needed"));
  EXPECT_EQ(to_json(offloads)["offloaded_bytes_per_rank"], kGiB);
}

TEST(PlanPage, TellsWhatAStepMoves) {
  PlanAnswer of_one = answer(8 * kGiB);
  EXPECT_THAT(to_page(of_one), Not(HasSubstr("a step")));
  of_one.plan.step = {3 * kGiB, 2 * kGiB, 0, 0};
  EXPECT_THAT(to_page(of_one),
              HasSubstr("a step   3.0 GiB to the GPU, 2.0 GiB from it, per rank\n"));
  EXPECT_EQ(to_json(of_one)["step_bytes_per_rank"]["h2d"], 3 * kGiB);
  EXPECT_EQ(to_json(of_one)["step_bytes_per_rank"]["d2h"], 2 * kGiB);
  of_one.plan.step = {0, 0, 5 * kGiB, kGiB};
  EXPECT_THAT(to_page(of_one), HasSubstr("a step   5.0 GiB gathered from other ranks, "
                                         "1.0 GiB reduced with them, per rank\n"));
  const auto step = to_json(of_one)["step_bytes_per_rank"];
  EXPECT_EQ(step["h2d"], 0);
  EXPECT_EQ(step["d2h"], 0);
  EXPECT_EQ(step["gathered"], 5 * kGiB);
  EXPECT_EQ(step["reduced"], kGiB);
}

TEST(PlanPage, TellsWhatALossMadeTheOtherWayWouldTake) {
  PlanAnswer whole = answer(8 * kGiB);
  EXPECT_THAT(to_page(whole), Not(HasSubstr("loss")));  // not known
  EXPECT_EQ(to_json(whole)["other_loss"]["loss_chunk"], kLossChunk);
  whole.plan.other_activations = kGiB;  // the same
  EXPECT_THAT(to_page(whole), Not(HasSubstr("loss")));
  whole.plan.other_activations = kGiB / 2;
  EXPECT_THAT(to_page(whole),
              HasSubstr("loss     whole; --loss-chunk 1024: 512.0 MiB of activations"));
  PlanAnswer chunked = whole;
  chunked.plan.shape.loss_chunk = 256;
  chunked.plan.other_activations = 4 * kGiB;
  EXPECT_THAT(to_page(chunked),
              HasSubstr("loss     chunks of 256 tokens; whole: 4.0 GiB of activations"));
  const nlohmann::json other = to_json(chunked)["other_loss"];
  EXPECT_EQ(other["loss_chunk"], 0);
  EXPECT_EQ(other["activation_bytes_per_rank"], 4 * kGiB);
}

TEST(PlanPage, TellsWhatWouldFit) {
  PlanAnswer small = answer(5 * kGiB);
  EXPECT_TRUE(small.engine_fits());
  EXPECT_FALSE(small.all_fits());
  EXPECT_THAT(to_page(small), HasSubstr("as far as activations can be told"));
  EXPECT_THAT(to_page(small), HasSubstr("nothing, on up to 1024"));
  small.nearest = Fit{small.wish, small.plan, {{"recompute", "none", "unit"}}, 1};
  EXPECT_THAT(to_page(small), HasSubstr("nearest  --recompute unit: 6.0 GiB"));
}

TEST(PlanPage, JsonHasTheSameNumbers) {
  PlanAnswer small = answer(3 * kGiB);
  small.nearest = Fit{small.wish, small.plan, {{"prefetch", "1", "0"}}, 2};
  const nlohmann::json json = to_json(small);
  EXPECT_EQ(json["engine_bytes_per_rank"], 2 * kGiB);
  EXPECT_EQ(json["bytes_per_node"], 6 * kGiB);
  EXPECT_EQ(json["bytes_available"], 3 * kGiB);
  EXPECT_EQ(json["engine_fits"], false);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["engine"][1]["owner"], "gather ring");
  EXPECT_EQ(json["nearest"]["nodes"], 2);
  EXPECT_EQ(json["nearest"]["changes"]["prefetch"], "auto");  // of the wish that fits
  EXPECT_TRUE(json["largest"].is_null());
}

}  // namespace
}  // namespace zero::launcher::plan_page_test
