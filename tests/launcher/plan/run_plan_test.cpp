#include "launcher/plan/run_plan.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "launcher/plan/advice.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"
#include "zero/gpu.h"

namespace zero::launcher::run_plan_test {
namespace {

TEST(RunPlan, SumsOverOwnersAndRanks) {
  RunPlan plan;
  plan.engine = {{"masters", "host", 100}, {"ring", "device", 20}};
  plan.activations = 7;
  plan.program = {.rank = 3, .starter = 0};
  plan.ranks_on_node = 2;
  EXPECT_EQ(plan.engine_bytes(), 120);
  EXPECT_EQ(plan.rank_bytes(), 130);
  EXPECT_EQ(plan.node_bytes(), 260);
  plan.offloaded = 5;
  EXPECT_EQ(plan.rank_bytes(), 135);
  plan.kernels = 11;
  EXPECT_EQ(plan.rank_bytes(), 146);
  plan.objects = 13;
  EXPECT_EQ(plan.rank_bytes(), 159);
  plan.key_values = 17;
  EXPECT_EQ(plan.rank_bytes(), 176);
  plan.key_values = 0;
  plan.activations = -1;  // not known
  plan.offloaded = plan.kernels = plan.objects = 0;
  EXPECT_EQ(plan.rank_bytes(), 123);
  plan.program.starter = 4;  // one on each node
  EXPECT_EQ(plan.rank_bytes(), 123);
  EXPECT_EQ(plan.program.of_node(2), 2 * 3 + 4);
  EXPECT_EQ(plan.node_bytes(), 2 * 123 + 4);
}

TEST(RunPlan, WhatNoNumberHoldsFitsNowhere) {
  RunPlan plan;
  plan.engine = {{"masters", "host", 100}};
  plan.ranks_on_node = 1;
  plan.program = {.rank = 0, .starter = INT64_MAX - 50};
  EXPECT_EQ(plan.node_bytes(), INT64_MAX);
  plan.engine[0].bytes = INT64_MAX / 2;
  plan.program.starter = 0;
  plan.ranks_on_node = 3;
  EXPECT_EQ(plan.node_bytes(), INT64_MAX);
}

TEST(RunPlan, AGpuHasMemoryOfItsOwn) {
  RunPlan plan;
  plan.engine = {{"masters", "host", 100}, {"ring", "device", 20}};
  plan.activations = 7;
  plan.offloaded = 5;
  plan.program = {.rank = 3, .starter = 0};
  plan.ranks_on_node = 2;
  EXPECT_EQ(plan.gpu_bytes(), 0);
  EXPECT_EQ(plan.engine_host_bytes(), 120);
  plan.on_gpu = true;
  EXPECT_EQ(plan.engine_host_bytes(), 100);
  EXPECT_EQ(plan.engine_gpu_bytes(), 20);
  EXPECT_EQ(plan.gpu_bytes(), 27 + kCudaBytes);
  EXPECT_EQ(plan.node_bytes(), 2 * (100 + 5 + 3));
  EXPECT_EQ(plan.rank_bytes(), 135 + kCudaBytes);
  EXPECT_EQ(room_for_drafts(plan, 1000), (900 - 2 * 108) / 2);
  EXPECT_EQ(room_for_drafts(plan, 200), 0);
  Wish wish;
  wish.room = 216;
  wish.gpu_room = 27 + kCudaBytes;
  EXPECT_TRUE(fits(plan, wish));
  --wish.gpu_room;
  EXPECT_FALSE(fits(plan, wish));
  ++wish.gpu_room;
  --wish.room;
  EXPECT_FALSE(fits(plan, wish));
}

// None is here: what is planned for one that is told.
TEST(RunPlan, TheRoomOnAGpuThatIsNotHere) {
  if (num_gpus() > 0) GTEST_SKIP() << "there is one";
  Settings settings;
  EXPECT_EQ(room_on_gpu(settings, 0, 1), 0);
  settings.device_memory = 100;
  EXPECT_EQ(room_on_gpu(settings, 0, 1), 0);  // auto computes on the host
  settings.device = "cuda";
  EXPECT_EQ(room_on_gpu(settings, 1, most_on_a_gpu(settings, 4)), 100);  // one for each
  settings.share_gpu = true;
  EXPECT_EQ(room_on_gpu(settings, 1, most_on_a_gpu(settings, 4)), 25);
  settings.device_memory = 0;
  EXPECT_EQ(room_on_gpu(settings, 0, 1), 0);
}

TEST(RunPlan, APassIsAMicroBatchOrAllOfThem) {
  Settings settings;
  settings.global_batch = 32;
  settings.micro_batch = 4;
  EXPECT_EQ(pass_shape(settings, 2).rows, 4);
  settings.accumulate = "unit";
  settings.dtype = "bf16";
  settings.recompute = "none";
  const PassShape pass = pass_shape(settings, 2);
  EXPECT_EQ(pass.rows, 16);
  EXPECT_EQ(pass.rows_in_units, 4);
  EXPECT_EQ(pass.element_bytes, 2);
  EXPECT_EQ(pass.recompute_every, 0);
  EXPECT_FALSE(pass.offloads);
  settings.recompute = "every:3";
  settings.offload_activations = true;
  EXPECT_EQ(pass_shape(settings, 2).recompute_every, 3);
  EXPECT_TRUE(pass_shape(settings, 2).offloads);
  settings.global_batch = 2;
  EXPECT_EQ(pass_shape(settings, 1).rows_in_units, 2) << "no more than there are";
  EXPECT_EQ(pass_shape(settings, 3).rows, 1) << "a batch that does not divide";
}

TEST(RunPlan, TheFullestHost) {
  const TempFolder folder;
  const auto fullest = [&](const std::string& hosts, int ranks) {
    return ranks_on_fullest(folder.write("hosts", hosts), ranks);
  };
  EXPECT_EQ(fullest("a slots=4\nb slots=2\n", 6), 4);
  EXPECT_EQ(fullest("# two\na slots=2\n\nb slots=8 # more\n", 6), 4);
  EXPECT_EQ(fullest("a slots=2 max_slots=8\na slots=1\n", 3), 3);
  EXPECT_EQ(fullest("a\n", 1), 1);
  EXPECT_EQ(fullest("a\nb\n", 1 << 20), 1 << 19) << "as many slots as they have cores";
  for (const char* wrong : {"slots=0", "slots=-3", "slots=abc", "slots=", "slot=4"})
    EXPECT_THROW(fullest(std::string("a\nb ") + wrong + "\n", 6), Error) << wrong;
  EXPECT_THROW(ranks_on_fullest(folder.path("nowhere"), 1), Error);
}

// As mpirun -n 8 --do-not-launch --display-map deals them.
TEST(RunPlan, MoreRanksThanSlotsAreDealtOutWhereMpirunMayOversubscribe) {
  const TempFolder folder;
  const std::string hosts = folder.write("hosts", "a slots=2\nb slots=1\nc slots=3\n");
  EXPECT_EQ(ranks_on_fullest(hosts, 6), 3);
  try {
    ranks_on_fullest(hosts, 8);
    ADD_FAILURE() << "8 ranks have no slots";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "the hosts have 6 slots, ranks is 8");
  }
  EXPECT_EQ(ranks_on_fullest(hosts, 8, true), 3);   // 3, 2, 3
  EXPECT_EQ(ranks_on_fullest(hosts, 9, true), 4);   // 3, 2, 4
  EXPECT_EQ(ranks_on_fullest(hosts, 11, true), 4);  // 4, 3, 4
  Settings settings;
  settings.hosts = hosts;
  settings.shard_over = "host";
  EXPECT_THROW(require_equal_hosts(settings, 8, true), Error);
  settings.hosts = folder.write("two", "a slots=1\nb slots=1\n");
  EXPECT_NO_THROW(require_equal_hosts(settings, 4, true));
}

TEST(RunPlan, AHostsRanksShareWeightsWhereEachHostHasAsMany) {
  const TempFolder folder;
  const auto refused = [&](const std::string& hosts, int ranks,
                           const std::string& group = "host") {
    Settings settings;
    settings.hosts = folder.write("hosts", hosts);
    settings.shard_over = group;
    try {
      require_equal_hosts(settings, ranks);
    } catch (const Error& error) {
      return error.problem();
    }
    return std::string();
  };
  const std::string unequal = "a slots=4\nc slots=2\nb slots=2\n";
  EXPECT_EQ(refused(unequal, 8), "hosts have different numbers of ranks: 2 and 4");
  EXPECT_EQ(refused(unequal, 8, "2"), "");
  EXPECT_EQ(refused(unequal, 4), "") << "the others get none";
  EXPECT_EQ(refused("a slots=2\nb slots=4\n", 4), "") << "a host may have slots left";
  EXPECT_EQ(refused("a slots=1\nb slots=2\na slots=1\n", 4), "");
}

TEST(RunPlan, AFileWithoutHostsIsRefused) {
  const TempFolder folder;
  EXPECT_THROW(ranks_on_fullest(folder.write("hosts", "# none\n"), 2), Error);
  EXPECT_THROW(ranks_on_fullest(folder.path("absent"), 2), Error);
}

TEST(RunPlan, TheLargestProductOfAPass) {
  Wish wish;
  wish.shape.config = {{"n_embd", 64}, {"vocab_size", 100}, {"n_inner", 300}};
  wish.shape.keys = {.dim = "n_embd", .ffn_dim = "n_inner"};
  wish.shape.seq_len = 16;
  wish.settings.global_batch = 8;
  wish.settings.micro_batch = 2;
  const auto expect = [&](int64_t rows, int64_t width) {
    const Product product = largest_product(wish);
    EXPECT_EQ(product.rows, rows);
    EXPECT_EQ(product.depth, 64);
    EXPECT_EQ(product.width, width);
  };
  expect(2 * 16, 300);
  wish.settings.accumulate = "unit";  // passes are of units, too
  expect(2 * 16, 300);
  wish.shape.config["n_inner"] = nullptr;
  expect(2 * 16, 4 * 64);
  wish.shape.config["vocab_size"] = 1000;
  expect(2 * 16, 1000);
  wish.gpu_room = 1;
  EXPECT_EQ(largest_product(wish).rows, 0);
}

TEST(RunPlan, AProgramIsMeasured) {
  const ProgramBytes program = measure_program({4, 8, 16});
  EXPECT_GT(program.rank, 8 << 20);
  EXPECT_GE(own_bytes("self"), program.rank * 9 / 10);
  EXPECT_EQ(own_bytes(std::to_string(getpid())) >> 22, own_bytes("self") >> 22);
  EXPECT_EQ(program.starter, own_bytes(std::to_string(getppid())));
  EXPECT_EQ(own_bytes("0"), 0);
}

}  // namespace
}  // namespace zero::launcher::run_plan_test
