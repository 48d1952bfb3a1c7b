// The suite of comm_suite.cpp with one rank and with ranks as threads, and what only
// threads can show.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "engine/comm/channel.h"
#include "engine/comm/collectives.h"
#include "engine/comm/shared_transport.h"
#include "engine/comm/thread_ranks.h"
#include "engine/device/host_device.h"
#include "tests/engine/comm_suite.h"
#include "zero/errors.h"

namespace zero::comm_threads_test {
namespace {

using ::testing::HasSubstr;

// body(ranks) on one thread per rank; a rank that ends leaves the group.
void on_threads(int size, int64_t slot_bytes,
                const std::function<void(std::unique_ptr<Ranks>)>& body) {
  auto groups = make_thread_ranks(size, slot_bytes);
  std::vector<std::jthread> threads;
  for (auto& ranks : groups) {
    threads.emplace_back(
        [&body, own = std::move(ranks)]() mutable { body(std::move(own)); });
  }
}

Backend self_backend() {
  return {"self", 1, [](const Backend::Rank& body) { run_rank(body, *make_one_rank()); }};
}

Backend thread_backend(int size, int64_t slot_bytes = 0) {
  const std::string suffix = slot_bytes > 0 ? "_small_slots" : "";
  return {"threads_" + std::to_string(size) + suffix, size,
          [=](const Backend::Rank& body) {
            on_threads(size, slot_bytes,
                       [&](std::unique_ptr<Ranks> ranks) { run_rank(body, *ranks); });
          }};
}

const auto kBackends =
    ::testing::Values(self_backend(), thread_backend(1), thread_backend(2),
                      thread_backend(3), thread_backend(4), thread_backend(5),
                      thread_backend(2, 4096), thread_backend(5, 4096));
INSTANTIATE_TEST_SUITE_P(Local, RanksTest, kBackends,
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Eight, RanksTest, ::testing::Values(thread_backend(8)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Local, CollectivesTest, kBackends,
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Staged, CollectivesTest,
                         ::testing::Values(staged(thread_backend(2)),
                                           staged(thread_backend(3)),
                                           staged(thread_backend(5))),
                         [](const auto& info) { return info.param.name; });

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ThreadRanksTest, AClosedRankReleasesTheOthers) {
  on_threads(3, 0, [](std::unique_ptr<Ranks> ranks) {
    if (ranks->rank() == 1) return;  // it leaves
    EXPECT_THAT(error_text([&] { ranks->barrier("end"); }), HasSubstr("has left"));
  });
}

TEST(ThreadRanksTest, TheReasonTravelsFromRankToRank) {
  on_threads(3, 4096, [](std::unique_ptr<Ranks> ranks) {
    auto comm = ranks->make_collectives();
    if (comm->rank() == 2) return;
    auto stream = make_inline_stream("gather");
    std::vector<float> shard(100'000), full(300'000);
    EXPECT_THAT(error_text([&] {
                  comm->all_gather(shard.data(), full.data(), 400'000, "blocks.0",
                                   *stream);
                }),
                HasSubstr("its communicator was closed\n  where: all_gather 'blocks.0'"));
  });
}

TEST(ThreadRanksTest, TheFirstReasonToLeaveIsToldAndItsFirstLine) {
  const auto groups = make_thread_ranks(2);
  Transport& leaving = groups[1]->channel().transport();
  leaving.leave("out of memory\n  in a long stack");
  leaving.leave("its communicator was closed");
  EXPECT_EQ(error_of([&] { groups[0]->barrier("b"); }).problem(),
            "rank 1 has left: out of memory");
}

TEST(ThreadRanksTest, CollectivesThatGoReleaseTheOthers) {
  const auto groups = make_thread_ranks(2);
  std::unique_ptr<Collectives> collectives[2];
  std::jthread second([&] { collectives[1] = groups[1]->make_collectives(); });
  collectives[0] = groups[0]->make_collectives();
  second.join();
  collectives[1].reset();
  const auto device = make_host_device();
  char shard = 0, full[2] = {};
  EXPECT_THAT(error_of([&] {
                collectives[0]->all_gather(&shard, full, 1, "a",
                                           device->compute_stream());
              }).problem(),
              HasSubstr("rank 1 has left"));
}

TEST(ThreadRanksTest, RanksThatSumInOtherOrdersDiverge) {
  on_threads(2, 0, [](std::unique_ptr<Ranks> ranks) {
    const auto comm = ranks->make_collectives();
    const auto device = make_host_device();
    const SumOrder order = comm->rank() == 0 ? SumOrder::kTree : SumOrder::kAny;
    float full[128] = {}, shard[64];
    EXPECT_EQ(error_of([&] {
                comm->reduce_scatter(full, shard, 64, DType::kFp32, order, "a",
                                     device->compute_stream(), {});
              }).code(),
              ExitCode::kDiverged);
  });
}

TEST(LoneCollectives, CopyWhatIsElsewhereAndReduceNothing) {
  const auto device = make_host_device();
  Stream& stream = device->compute_stream();
  const auto lone = make_lone_collectives();
  float shard[2] = {3, 4}, full[2] = {};
  lone->all_gather(shard, full, sizeof shard, "a", stream);
  EXPECT_EQ(full[1], 4);
  lone->all_gather(full, full, sizeof full, "a", stream);
  EXPECT_EQ(full[1], 4);
  double value = 5;
  lone->all_reduce(std::span(&value, 1), SumOrder::kTree, "a", stream);
  EXPECT_EQ(value, 5);
}

TEST(ThreadRanksTest, ARankThatLeavesAfterItsLastCallDisturbsNobody) {
  for (int i = 0; i < 200; ++i) {
    on_threads(3, 0, [](std::unique_ptr<Ranks> ranks) {
      int64_t value = 1;
      ranks->all_reduce(std::span(&value, 1), ReduceOp::kSum, "last");
      EXPECT_EQ(value, 3);
    });
  }
}

TEST(ThreadRanksTest, ARankThatLeavesIsMissedInEachOfItsGroups) {
  on_threads(3, 0, [](std::unique_ptr<Ranks> ranks) {
    auto duplicate = ranks->duplicate();
    auto part = ranks->split(ranks->rank() == 2);
    if (ranks->rank() == 1) return;
    auto& waits = ranks->rank() == 0 ? part : duplicate;
    EXPECT_THAT(error_text([&] { waits->barrier("end"); }), HasSubstr("has left"));
  });
}

TEST(ThreadRanksTest, ClosingFailsTheCallsStillQueued) {
  on_threads(2, 0, [](std::unique_ptr<Ranks> ranks) {
    auto comm = ranks->make_collectives();
    if (ranks->rank() == 1) return ranks->barrier("the other has seen its failure");
    auto device = make_host_device();
    auto stream = device->make_stream("gather");
    int64_t shard = 1, full[2];
    comm->all_gather(&shard, full, 8, "never", *stream);
    comm.reset();
    EXPECT_THAT(error_text([&] { stream->synchronize(); }), HasSubstr("left its group"));
    ranks->barrier("the other has seen its failure");
  });
}

TEST(ThreadRanksTest, AnOperationThatFailsBeforeACollectiveReleasesTheOthers) {
  on_threads(2, 0, [](std::unique_ptr<Ranks> ranks) {
    auto comm = ranks->make_collectives();
    auto device = make_host_device();
    auto stream = device->make_stream("work");
    const bool is_culprit = comm->rank() == 0;
    if (is_culprit) {
      as_host_stream(*stream).enqueue(
          [] { throw Error(ExitCode::kEnvironment, "no disk"); });
    }
    int64_t shard = 1, full[2];
    comm->all_gather(&shard, full, 8, "after", *stream);  // skipped on the culprit
    EXPECT_THAT(error_text([&] { stream->synchronize(); }),
                HasSubstr(is_culprit ? "no disk" : "rank 0 has left"));
  });
}

// Neighbours who are slow to open: they give the leader time to return before them, which
// it must not.
class SlowNeighbours final : public Neighbours {
 public:
  std::shared_ptr<std::byte> create(int64_t bytes, MemoryTicket&) override {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), std::free);
    std::memset(memory_.get(), 0, bytes);
    return memory_;
  }
  std::shared_ptr<std::byte> open(const MemoryTicket&, int64_t) override {
    const auto patience = std::chrono::milliseconds(200);
    EXPECT_EQ(leader_returned_.get_future().wait_for(patience),
              std::future_status::timeout)
        << "the leader may close what nobody has opened";
    return memory_;
  }
  Identity self() const override { return {}; }
  std::string reason_gone(const Identity&) const override { return ""; }
  void leader_returned() { leader_returned_.set_value(); }

 private:
  std::shared_ptr<std::byte> memory_;
  std::promise<void> leader_returned_;
};

TEST(SplitTest, TheLeaderStaysUntilEveryoneHasOpened) {
  auto neighbours = std::make_shared<SlowNeighbours>();
  MemoryTicket ticket;
  const SharedArea area(neighbours->create(SharedArea::bytes_for(2, 4096), ticket), 2,
                        4096);
  const auto play = [&](int rank) {
    const auto transport = make_shared_transport(neighbours, area, rank);
    transport->split(make_call(0, Operation::kSplit, 0, 0, ""), 0);
    if (rank == 0) neighbours->leader_returned();
  };
  std::jthread leader(play, 0), other(play, 1);
}

// A transport that has lost its network; it notes its calls and what it is told to say.
class BrokenTransport final : public Transport {
 public:
  explicit BrokenTransport(std::vector<std::string>& log)
      : Transport({0, 2}, {0, 2}), log_(log) {}
  void all_gather(const RankCall& call, std::span<const GatheredArray>) override {
    fail(call);
  }
  void reduce_scatter(const RankCall& call, const void*, float*, int64_t, DType,
                      const SummedPiece&) override {
    fail(call);
  }
  void broadcast(const RankCall& call, void*, int64_t, int) override { fail(call); }
  void barrier(const RankCall& call) override { fail(call); }
  std::unique_ptr<Transport> split(const RankCall& call, int) override {
    fail(call);
    return nullptr;
  }
  void leave(const std::string& reason) noexcept override {
    log_.push_back("left: " + reason);
  }
  std::string reason_gone() const override { return ""; }

 private:
  void fail(const RankCall& call) {
    log_.push_back(description_of(call));
    throw Error(ExitCode::kEnvironment, "the network is gone");
  }
  std::vector<std::string>& log_;
};

TEST(ChannelTest, TheFirstFailureIsToldToTheOthersAndEndsIt) {
  std::vector<std::string> log;
  Ranks ranks(std::make_unique<BrokenTransport>(log));
  int64_t value = 0;
  EXPECT_EQ(error_text([&] { ranks.barrier("end"); }), "the network is gone");
  EXPECT_EQ(error_text([&] { ranks.broadcast(&value, 8, 0, "value"); }),
            "the network is gone");
  EXPECT_EQ(error_text([&] { ranks.duplicate(); }), "the network is gone");
  EXPECT_THAT(log, ::testing::ElementsAre("barrier 'end' (0 bytes)",
                                          "left: the network is gone"));
}

TEST(ChannelTest, EveryCallIsAPointOfItsName) {
  auto ranks = make_one_rank();
  auto comm = ranks->make_collectives();
  auto stream = make_inline_stream("comm");
  int64_t value = 1;
  float full = 1, shard = 0;
  const std::map<std::string, std::function<void()>> calls = {
      {"all_gather", [&] { comm->all_gather(&full, &shard, 4, "tag", *stream); }},
      {"reduce_scatter",
       [&] {
         comm->reduce_scatter(&full, &shard, 1, DType::kFp32, SumOrder::kTree, "tag",
                              *stream);
       }},
      {"all_reduce", [&] { ranks->largest(value, "tag"); }},
      {"broadcast", [&] { ranks->broadcast(&value, 8, 0, "tag"); }},
      {"barrier", [&] { ranks->barrier("tag"); }}};
  for (const auto& [name, call] : calls) {
    set_delays({{"comm." + name, 10}});
    const auto begin = std::chrono::steady_clock::now();
    call();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10))
        << name;
  }
  set_delays({});
}

}  // namespace
}  // namespace zero::comm_threads_test
