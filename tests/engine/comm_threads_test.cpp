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

#include "engine/comm/queued_communicator.h"
#include "engine/comm/self_communicator.h"
#include "engine/comm/shared_transport.h"
#include "engine/comm/thread_communicator.h"
#include "engine/device/delays.h"
#include "engine/device/host_device.h"
#include "engine/errors.h"
#include "tests/engine/comm_suite.h"

namespace zero {
namespace {

using testing::HasSubstr;

// body(communicator) on one thread per rank; a rank that ends closes its communicator.
void on_threads(int size, int64_t slot_bytes,
                const std::function<void(std::unique_ptr<Communicator>)>& body) {
  auto communicators = make_thread_communicators(size, slot_bytes);
  std::vector<std::jthread> threads;
  for (auto& comm : communicators) {
    threads.emplace_back(
        [&body, own = std::move(comm)]() mutable { body(std::move(own)); });
  }
}

Backend self_backend() {
  return {"self", 1, [](const Backend::Rank& body) {
            auto comm = make_self_communicator();
            run_rank(body, *comm);
          }};
}

Backend thread_backend(int size, int64_t slot_bytes = 0) {
  const std::string suffix = slot_bytes > 0 ? "_small_slots" : "";
  return {
      "threads_" + std::to_string(size) + suffix, size, [=](const Backend::Rank& body) {
        on_threads(size, slot_bytes,
                   [&](std::unique_ptr<Communicator> comm) { run_rank(body, *comm); });
      }};
}

INSTANTIATE_TEST_SUITE_P(Local, CommunicatorTest,
                         testing::Values(self_backend(), thread_backend(1),
                                         thread_backend(2), thread_backend(3),
                                         thread_backend(4), thread_backend(5),
                                         thread_backend(2, 4096),
                                         thread_backend(5, 4096)),
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

TEST(ThreadCommunicatorTest, AClosedRankReleasesTheOthers) {
  on_threads(3, 0, [](std::unique_ptr<Communicator> comm) {
    if (comm->rank() == 1) return;  // its communicator closes
    auto stream = make_inline_stream("barrier");
    EXPECT_THAT(error_text([&] { comm->barrier("end", *stream); }),
                HasSubstr("has left"));
  });
}

TEST(ThreadCommunicatorTest, TheReasonTravelsFromRankToRank) {
  on_threads(3, 4096, [](std::unique_ptr<Communicator> comm) {
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

TEST(ThreadCommunicatorTest, ARankThatLeavesAfterItsLastCallDisturbsNobody) {
  for (int i = 0; i < 200; ++i) {
    on_threads(3, 0, [](std::unique_ptr<Communicator> comm) {
      auto stream = make_inline_stream("sum");
      int64_t value = 1;
      comm->all_reduce(std::span(&value, 1), ReduceOp::kSum, "last", *stream);
      EXPECT_EQ(value, 3);
    });
  }
}

TEST(ThreadCommunicatorTest, AnAbortReleasesEveryGroupOfTheFamily) {
  on_threads(3, 0, [](std::unique_ptr<Communicator> comm) {
    auto duplicate = comm->duplicate();
    auto part = comm->split(comm->rank() == 2);
    auto device = make_host_device();
    auto stream = device->make_stream("barrier");
    if (comm->rank() == 1) {
      abort_thread_communicators(*comm);
      stream->synchronize();
      return;
    }
    auto& waits = comm->rank() == 0 ? part : duplicate;
    EXPECT_THAT(error_text([&] {
                  waits->barrier("end", *stream);
                  stream->synchronize();
                }),
                testing::AnyOf(HasSubstr("aborted"), HasSubstr("has left")));
  });
}

TEST(ThreadCommunicatorTest, ClosingFailsTheCallsStillQueued) {
  auto communicators = make_thread_communicators(2);
  auto device = make_host_device();
  auto stream = device->make_stream("barrier");
  communicators[0]->barrier("never", *stream);
  communicators[0].reset();
  EXPECT_THAT(error_text([&] { stream->synchronize(); }), HasSubstr("left its group"));
}

TEST(ThreadCommunicatorTest, AnOperationThatFailsBeforeACollectiveReleasesTheOthers) {
  on_threads(2, 0, [](std::unique_ptr<Communicator> comm) {
    auto device = make_host_device();
    auto stream = device->make_stream("work");
    const bool is_culprit = comm->rank() == 0;
    if (is_culprit) {
      as_host_stream(*stream).enqueue(
          [] { throw Error(ExitCode::kEnvironment, "no disk"); });
    }
    comm->barrier("after", *stream);  // skipped on the culprit
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
    SharedTransport transport(neighbours, area, rank);
    transport.split(make_call(0, Operation::kSplit, 0, 0, ""), 0);
    if (rank == 0) neighbours->leader_returned();
  };
  std::jthread leader(play, 0), other(play, 1);
}

// A transport that has lost its network; it notes its calls and what it is told to say.
class BrokenTransport final : public Transport {
 public:
  explicit BrokenTransport(std::vector<std::string>& log) : log_(log) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void all_gather(const Call& call, const void*, void*, int64_t) override { fail(call); }
  void reduce_scatter(const Call& call, const void*, float*, int64_t, WireType) override {
    fail(call);
  }
  void broadcast(const Call& call, void*, int64_t, int) override { fail(call); }
  void barrier(const Call& call) override { fail(call); }
  std::unique_ptr<Transport> split(const Call& call, int) override {
    fail(call);
    return nullptr;
  }
  void leave(const std::string& reason) noexcept override {
    log_.push_back("left: " + reason);
  }

 private:
  void fail(const Call& call) {
    log_.push_back(description_of(call));
    throw Error(ExitCode::kEnvironment, "the network is gone");
  }
  std::vector<std::string>& log_;
};

TEST(QueuedCommunicatorTest, TheFirstFailureIsToldToTheOthersAndEndsIt) {
  std::vector<std::string> log;
  QueuedCommunicator comm(std::make_unique<BrokenTransport>(log));
  auto stream = make_inline_stream("control");
  int64_t value = 0;
  EXPECT_EQ(error_text([&] { comm.barrier("end", *stream); }), "the network is gone");
  EXPECT_EQ(error_text([&] { comm.broadcast(&value, 8, 0, "value", *stream); }),
            "the network is gone");
  EXPECT_EQ(error_text([&] { comm.duplicate(); }), "the network is gone");
  EXPECT_THAT(
      log, testing::ElementsAre("barrier 'end' (0 bytes)", "left: the network is gone"));
}

TEST(DelayedCommunicatorTest, EveryCollectiveIsAPointOfItsName) {
  auto comm = make_self_communicator();
  auto stream = make_inline_stream("comm");
  int64_t value = 1;
  float full = 1, shard = 0;
  const std::map<std::string, std::function<void()>> collectives = {
      {"all_gather", [&] { comm->all_gather(&full, &shard, 4, "tag", *stream); }},
      {"reduce_scatter",
       [&] { comm->reduce_scatter(&full, &shard, 1, WireType::kFloat, "tag", *stream); }},
      {"all_reduce",
       [&] { comm->all_reduce(std::span(&value, 1), ReduceOp::kSum, "tag", *stream); }},
      {"broadcast", [&] { comm->broadcast(&value, 8, 0, "tag", *stream); }},
      {"barrier", [&] { comm->barrier("tag", *stream); }}};
  for (const auto& [name, call] : collectives) {
    set_delays({{"comm." + name, 10}});
    const auto begin = std::chrono::steady_clock::now();
    call();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10))
        << name;
  }
  set_delays({});
}

}  // namespace
}  // namespace zero
