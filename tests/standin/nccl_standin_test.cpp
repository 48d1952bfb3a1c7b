// Collectives by NCCL, among ranks that are threads with a GPU of the stand-in each.
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "engine/comm/collectives.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/thread_ranks.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/watch/activity.h"
#include "tests/engine/comm_suite.h"
#include "tests/standin/standin.h"
#include "zero/errors.h"
#include "zero/mesh.h"

namespace zero::nccl_standin_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// New GPUs, enough for any number of ranks here.
void plug_in_gpus() {
  setenv("STANDIN_GPUS", "5", /*overwrite=*/1);
  standin::reset();
}

void on_threads(int size, const std::function<void(Ranks&)>& body) {
  plug_in_gpus();
  auto groups = make_thread_ranks(size);
  std::vector<std::jthread> threads;
  for (auto& ranks : groups) {
    threads.emplace_back(
        [&body, own = std::move(ranks)]() mutable { run_rank(body, *own); });
  }
}

// The body gets NCCL's collectives and the GPU. Little of its memory is for exchanges.
void with_nccl(Ranks& ranks, const Backend::Body& body) {
  standin::set_chaos(ranks.rank() + 1);
  const auto gpu = make_cuda_device(ranks.rank(), {});
  const int64_t exchange_bytes = 2048 * ranks.size();
  void* const exchange = gpu->allocate("exchange", exchange_bytes);
  const std::unique_ptr<Collectives> comm(
      zero_make_nccl_collectives(ranks, *gpu, exchange, exchange_bytes));
  body(*comm, *gpu);
}

Backend nccl_backend(int size) {
  return {.name = "nccl_" + std::to_string(size),
          .size = size,
          .run = [=](const Backend::Rank& body) { on_threads(size, body); },
          .with_collectives = with_nccl};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RanksTest);  // they need no GPU
INSTANTIATE_TEST_SUITE_P(Standin, CollectivesTest,
                         ::testing::Values(nccl_backend(2), nccl_backend(3),
                                           nccl_backend(4), nccl_backend(5)),
                         [](const auto& info) { return info.param.name; });

class NcclTest : public ::testing::Test {
 protected:
  void on_ranks(int size, const Backend::Body& body) {
    on_threads(size, [&](Ranks& ranks) { with_nccl(ranks, body); });
    EXPECT_EQ(standin::num_streams(), 0);
    EXPECT_EQ(standin::num_events(), 0);
  }
  static void gather(Collectives& comm, Stream& stream, const std::string& tag) {
    std::vector<float> shard(100, 1.0f), full(100 * comm.size());
    const Drained drained(stream);
    comm.all_gather(shard.data(), full.data(), 400, tag, stream);
    stream.synchronize();
  }
};

TEST_F(NcclTest, SumsInAnyOrderAreCloseToThoseOfATree) {
  on_ranks(3, [](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("reduce");
    const int64_t numel = 70'001;
    std::vector<float> full(3 * numel), shard(numel);
    for (int64_t i = 0; i < std::ssize(full); ++i)
      full[i] = 1.0f / static_cast<float>(i % 97 + comm.rank() + 1);
    comm.reduce_scatter(full.data(), shard.data(), numel, DType::kFp32, SumOrder::kAny,
                        "blocks.1", *stream);
    stream->synchronize();
    for (int64_t i = 0; i < numel; ++i) {
      const auto k = static_cast<double>((comm.rank() * numel + i) % 97);
      ASSERT_NEAR(shard[i], 1 / (k + 1) + 1 / (k + 2) + 1 / (k + 3), 1e-6) << i;
    }
  });
}

TEST_F(NcclTest, AMeshGathersAndReducesBothWays) {
  on_threads(4, [](Ranks& ranks) {
    constexpr int64_t kExchangeBytes = 4096;  // several pieces of most arrays
    const auto gpu = make_cuda_device(ranks.rank(), {});
    void* const exchange = gpu->allocate("exchange", kExchangeBytes);
    const auto nccl = [&](int color) {
      const auto some = ranks.split(color);
      return std::unique_ptr<Collectives>(
          zero_make_nccl_collectives(*some, *gpu, exchange, kExchangeBytes));
    };
    for (const int group : {1, 2, 4}) {
      const Mesh mesh(4, group);
      const auto stream = gpu->make_stream("mesh");
      const auto comm = nccl(mesh.group_of(ranks.rank()));
      const auto across = nccl(mesh.member_of(ranks.rank()));
      expect_mesh_works(mesh, ranks.rank(), *comm, *across, *stream);
    }
  });
}

TEST_F(NcclTest, NobodyWaitsOnTheHost) {
  std::barrier together(2);
  on_ranks(2, [&](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    std::vector<float> shard(100), full(200);
    together.arrive_and_wait();
    const int before = standin::num_host_waits();
    together.arrive_and_wait();
    for (int i = 0; i < 10; ++i) {
      comm.all_gather(shard.data(), full.data(), 400, "blocks.1", *stream);
      comm.reduce_scatter(full.data(), shard.data(), 100, DType::kFp32, SumOrder::kTree,
                          "blocks.1", *stream);
    }
    double loss = 1;
    comm.all_reduce(std::span(&loss, 1), SumOrder::kTree, "losses", *stream);
    EXPECT_EQ(standin::num_host_waits(), before);
    together.arrive_and_wait();
    stream->synchronize();
    EXPECT_EQ(loss, 2);
  });
}

// As when a cable is pulled: the call has been queued, and never ends.
TEST_F(NcclTest, WhatGoesWrongBehindACallNamesIt) {
  on_ranks(2, [](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    gather(comm, *stream, "blocks.0");
    if (comm.rank() == 1) standin::fail_when_run("nccl", ncclRemoteError);
    const Error error = error_of([&] { gather(comm, *stream, "blocks.1"); });
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_THAT(error.what(), HasSubstr("all_gather 'blocks.1' (400 bytes)"));
  });
}

TEST_F(NcclTest, WhatNcclRefusesNamesTheCall) {
  on_ranks(2, [](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    gather(comm, *stream, "blocks.0");
    if (comm.rank() == 0) standin::fail_next("ncclAllGather", ncclInternalError);
    const Error error = error_of([&] { gather(comm, *stream, "blocks.1"); });
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    // And nobody is left behind.
    EXPECT_EQ(error_of([&] { gather(comm, *stream, "blocks.2"); }).code(),
              ExitCode::kEnvironment);
  });
}

// NCCL ends when what is queued has run, which waits for a rank that never comes.
TEST_F(NcclTest, AFailureEndsWhatWaitsForAnotherRank) {
  std::barrier has_failed(2);
  on_ranks(2, [&](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    gather(comm, *stream, "blocks.0");
    if (comm.rank() == 0) {
      std::vector<float> shard(100, 1.0f), full(200);
      comm.all_gather(shard.data(), full.data(), 400, "blocks.1", *stream);
      standin::fail_next("ncclAllGather", ncclInternalError);
      EXPECT_EQ(error_of([&] { gather(comm, *stream, "blocks.2"); }).code(),
                ExitCode::kEnvironment);
      EXPECT_THROW(stream->synchronize(), std::exception);
    }
    has_failed.arrive_and_wait();
  });
}

TEST_F(NcclTest, ARankThatLeavesWakesTheOthers) {
  on_ranks(3, [](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    gather(comm, *stream, "blocks.0");
    if (comm.rank() == 2) return;
    EXPECT_EQ(error_of([&] { gather(comm, *stream, "blocks.1"); }).code(),
              ExitCode::kEnvironment);
  });
}

TEST_F(NcclTest, WhenOneCannotJoinNobodyWaitsForIt) {
  for (const char* call : {"ncclGetUniqueId", "ncclCommInitRankConfig"}) {
    plug_in_gpus();
    standin::fail_next(call, ncclSystemError);
    auto groups = make_thread_ranks(3);
    std::vector<std::jthread> threads;
    for (auto& own : groups) {
      threads.emplace_back([&ranks = *own] {
        const auto gpu = make_cuda_device(ranks.rank(), {});
        const Error error =
            error_of([&] { delete zero_make_nccl_collectives(ranks, *gpu, nullptr, 0); });
        EXPECT_EQ(error.code(), ExitCode::kEnvironment);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("NCCL: "), HasSubstr("NCCL_DEBUG"),
                                        Not(HasSubstr("found each other"))));
      });
    }
  }
}

// As where a network lets nothing through.
TEST_F(NcclTest, RanksThatDoNotFindEachOtherGiveUpTogether) {
  plug_in_gpus();
  standin::fail_next("ncclCommInitRankConfig", ncclInProgress);
  auto groups = make_thread_ranks(2);
  std::vector<std::jthread> threads;
  for (auto& own : groups) {
    threads.emplace_back([&ranks = *own] {
      const auto gpu = make_cuda_device(ranks.rank(), {});
      const Error error = error_of([&] {
        NcclCommunicator(
            ranks, {[](auto) {}, [] { return ""; }, std::chrono::duration<double>(0.2)});
      });
      EXPECT_EQ(error.code(), ExitCode::kEnvironment);
      EXPECT_THAT(error.what(), HasSubstr("have not found each other"));
    });
  }
}

// All have queued it, and it never ends: nobody is in a call of the host's.
TEST_F(NcclTest, ALongWaitForTheGpuIsSeen) {
  std::atomic<bool> is_over = false;
  on_ranks(2, [&](Collectives& comm, Device& gpu) {
    auto stream = gpu.make_stream("comm");
    gather(comm, *stream, "blocks.0");
    if (comm.rank() == 0) {
      std::vector<float> shard(100, 1.0f), full(200);
      const Drained drained(*stream);
      comm.all_gather(shard.data(), full.data(), 400, "blocks.1", *stream);
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      uint64_t call = 0;
      while (call == 0 && std::chrono::steady_clock::now() < patience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        call = Activity::here().state().call;
      }
      EXPECT_NE(call, 0u);
      is_over = true;
    } else {
      while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gather(comm, *stream, "blocks.1");
    }
  });
}

}  // namespace
}  // namespace zero::nccl_standin_test
