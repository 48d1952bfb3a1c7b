// What every backend must do. The programs that run it: comm_threads_test.cpp,
// comm_mpi_test.cpp, comm_started_test.cpp.
#include "tests/engine/comm_suite.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/device/host_device.h"
#include "zero/mesh.h"

namespace zero {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

void Backend::on_the_host(Ranks& ranks, const Body& body) {
  const auto device =
      make_host_device({.chaos_seed = static_cast<uint64_t>(ranks.rank()) + 1});
  body(*ranks.make_collectives(), *device);
}

Backend staged(Backend backend) {
  const int64_t bytes = 2048 * backend.size;  // several pieces of most arrays
  backend.most_bytes = 1024;
  backend.with_collectives = [=](Ranks& ranks, const Backend::Body& body) {
    const auto device =
        make_host_device({.chaos_seed = static_cast<uint64_t>(ranks.rank()) + 1});
    std::vector<std::byte> memory(bytes);
    body(*make_staged_collectives(ranks.make_collectives(), *device, memory), *device);
  };
  return backend;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::kDone, "nothing was thrown");
}

void run_rank(const Backend::Rank& body, Ranks& ranks) {
  try {
    body(ranks);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << ranks.rank() << " threw: " << error.what();
  }
}

namespace {

class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                 result.file_name() ? result.file_name() : "?", result.line_number(),
                 result.message());
  }

 private:
  int rank_;
};

}  // namespace

int run_tests_of_rank(Ranks& world) {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(world.rank()));
  }
  return static_cast<int>(world.largest(RUN_ALL_TESTS(), "failures"));
}

namespace {

// Values of many magnitudes, whose sum depends on the order; the same on every rank that
// asks.
Floats values_of(int rank, int64_t numel, uint32_t seed = 0) {
  std::mt19937 random(1000 * seed + rank + 1);
  Floats values(numel);
  for (float& value : values) {
    const auto bits = static_cast<int>(random());
    value = std::ldexp(static_cast<float>(bits >> 8), bits % 16 - 20);
  }
  return values;
}

// The sum over ranks as the header of SumOrder words it: neighbours first, level by
// level.
Floats tree_of(std::vector<Floats> level) {
  while (level.size() > 1) {
    std::vector<Floats> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      Floats sum = level[i];
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += level[i + 1][k];
      next.push_back(sum);
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

Floats slice(const Floats& values, int64_t begin, int64_t numel) {
  return {values.begin() + begin, values.begin() + begin + numel};
}

// What rank must get when all ranks reduce values_of(rank, size * numel).
Floats expected_shard(int rank, int size, int64_t numel, uint32_t seed = 0) {
  std::vector<Floats> parts;
  for (int from = 0; from < size; ++from) {
    parts.push_back(slice(values_of(from, size * numel, seed), rank * numel, numel));
  }
  return tree_of(parts);
}

Floats expected_full(int size, int64_t numel, uint32_t seed = 0) {
  Floats full;
  for (int rank = 0; rank < size; ++rank) {
    const Floats shard = values_of(rank, numel, seed);
    full.insert(full.end(), shard.begin(), shard.end());
  }
  return full;
}

std::vector<uint32_t> bits_of(const Floats& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

Floats gather(Collectives& comm, const Floats& shard, Stream& stream,
              const std::string& tag = "gather") {
  Floats full(comm.size() * shard.size(), -1);
  const Drained drained(stream);
  comm.all_gather(shard.data(), full.data(), shard.size() * 4, tag, stream);
  stream.synchronize();
  return full;
}

Floats reduce(Collectives& comm, Floats full, Stream& stream,
              const std::string& tag = "reduce") {
  Floats shard(full.size() / comm.size(), -1);
  const Drained drained(stream);
  comm.reduce_scatter(full.data(), shard.data(), shard.size(), DType::kFp32,
                      SumOrder::kTree, tag, stream);
  stream.synchronize();
  return shard;
}

const std::vector<int64_t> kSizes = {0, 1, 3, 15, 16, 17, 1023, 4097, 300'007};

}  // namespace

TEST_P(CollectivesTest, GathersShardsInRankOrder) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    for (int64_t numel : kSizes) {
      EXPECT_EQ(gather(comm, values_of(comm.rank(), numel), *stream),
                expected_full(comm.size(), numel));
    }
  });
}

TEST_P(CollectivesTest, GathersAnyNumberOfBytes) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    for (const size_t num_bytes : {1, 2, 63, 64, 65, 127, 129, 4097}) {
      const auto shard_of = [&](int rank) { return std::string(num_bytes, 'a' + rank); };
      const std::string shard = shard_of(comm.rank());
      std::string full(num_bytes * comm.size(), '.'), expected;
      for (int rank = 0; rank < comm.size(); ++rank) expected += shard_of(rank);
      comm.all_gather(shard.data(), full.data(), shard.size(), "text", *stream);
      stream->synchronize();
      EXPECT_EQ(full, expected);
    }
  });
}

TEST_P(CollectivesTest, GathersSeveralArraysAsOne) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    const auto of_array = [](size_t array, Floats values) {
      for (float& value : values) value += static_cast<float>(array);
      return values;
    };
    std::vector<Floats> shards, fulls;
    for (const int64_t numel : {3, 0, 4097, 100'000, 17}) {
      shards.push_back(of_array(shards.size(), values_of(comm.rank(), numel)));
      fulls.emplace_back(comm.size() * numel, -1);
    }
    std::vector<GatheredArray> arrays;
    for (size_t i = 0; i < shards.size(); ++i)
      arrays.push_back({shards[i].data(), fulls[i].data(), std::ssize(shards[i]) * 4});
    comm.all_gather(arrays, "several", *stream);
    stream->synchronize();
    for (size_t i = 0; i < shards.size(); ++i)
      EXPECT_EQ(fulls[i], of_array(i, expected_full(comm.size(), std::ssize(shards[i]))));
  });
}

TEST_P(CollectivesTest, GathersInPlace) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    for (int64_t numel : kSizes) {
      Floats full(comm.size() * numel + 1, -1);
      const Floats own = values_of(comm.rank(), numel);
      float* shard = full.data() + comm.rank() * numel;
      std::copy(own.begin(), own.end(), shard);
      comm.all_gather(shard, full.data(), numel * 4, "in place", *stream);
      stream->synchronize();
      EXPECT_EQ(slice(full, 0, comm.size() * numel), expected_full(comm.size(), numel));
      EXPECT_EQ(full.back(), -1);
    }
  });
}

TEST_P(CollectivesTest, ReducesInTreeOrderBitForBit) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("reduce");
    for (int64_t numel : kSizes) {
      const Floats full = values_of(comm.rank(), comm.size() * numel);
      EXPECT_EQ(bits_of(reduce(comm, full, *stream)),
                bits_of(expected_shard(comm.rank(), comm.size(), numel)));
    }
  });
}

TEST_P(CollectivesTest, ReducesIntoItsOwnPart) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("reduce");
    const int64_t numel = 70'001;
    Floats full = values_of(comm.rank(), comm.size() * numel);
    float* shard = full.data() + comm.rank() * numel;
    comm.reduce_scatter(full.data(), shard, numel, DType::kFp32, SumOrder::kTree,
                        "in place", *stream);
    stream->synchronize();
    EXPECT_EQ(slice(full, comm.rank() * numel, numel),
              expected_shard(comm.rank(), comm.size(), numel));
  });
}

TEST_P(CollectivesTest, ComesAfterWhatTheStreamHasToDo) {
  on_every_rank([](Collectives& comm, Device& device) {
    const int64_t numel = 1000;
    const Floats own = values_of(comm.rank(), numel);
    const Floats values = values_of(comm.rank(), comm.size() * numel);
    Floats shard(numel), full(comm.size() * numel), to_reduce(full.size()), sums(numel);
    auto stream = device.make_stream("comm");
    stream->copy(shard.data(), own.data(), numel * 4);
    comm.all_gather(shard.data(), full.data(), numel * 4, "gather", *stream);
    stream->copy(to_reduce.data(), values.data(), std::ssize(values) * 4);
    comm.reduce_scatter(to_reduce.data(), sums.data(), numel, DType::kFp32,
                        SumOrder::kTree, "reduce", *stream);
    stream->synchronize();
    EXPECT_EQ(full, expected_full(comm.size(), numel));
    EXPECT_EQ(sums, expected_shard(comm.rank(), comm.size(), numel));
  });
}

TEST_P(CollectivesTest, TellsEachSumWhileItIsAtHand) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("reduce");
    for (int64_t numel : kSizes) {
      Floats full = values_of(comm.rank(), comm.size() * numel);
      const Floats expected = expected_shard(comm.rank(), comm.size(), numel);
      Floats shard(numel, -1);
      int64_t told = 0;
      comm.reduce_scatter(full.data(), shard.data(), numel, DType::kFp32, SumOrder::kTree,
                          "told", *stream, [&](int64_t begin, int64_t end) {
                            EXPECT_EQ(begin, told);
                            EXPECT_EQ(begin % 64, 0);
                            for (; told < end; ++told)
                              ASSERT_EQ(shard[told], expected[told]) << told;
                          });
      stream->synchronize();
      EXPECT_EQ(told, numel);
    }
  });
}

TEST_P(CollectivesTest, SumsBf16InFp32) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("reduce");
    for (int64_t numel : kSizes) {
      std::vector<Floats> parts;  // (size, numel): what each rank sends to us
      std::vector<uint16_t> full;
      for (int from = 0; from < comm.size(); ++from) {
        Floats values = values_of(from, comm.size() * numel);
        for (float& value : values) {
          const auto upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
          if (from == comm.rank()) full.push_back(upper);
          value = std::bit_cast<float>(uint32_t{upper} << 16);
        }
        parts.push_back(slice(values, comm.rank() * numel, numel));
      }
      Floats shard(numel, -1);
      comm.reduce_scatter(full.data(), shard.data(), numel, DType::kBf16, SumOrder::kTree,
                          "bf16", *stream);
      stream->synchronize();
      EXPECT_EQ(bits_of(shard), bits_of(tree_of(parts)));
    }
  });
}

TEST_P(RanksTest, ReducesIntegersOnAllRanks) {
  on_every_rank([](Ranks& ranks) {
    const int64_t rank = ranks.rank(), size = ranks.size();
    std::vector<int64_t> sum = {rank, int64_t{1} << 60}, max = {rank, -rank}, min = max;
    ranks.all_reduce(std::span(sum), ReduceOp::kSum, "sum");
    ranks.all_reduce(std::span(max), ReduceOp::kMax, "max");
    ranks.all_reduce(std::span(min), ReduceOp::kMin, "min");
    EXPECT_EQ(sum, (std::vector<int64_t>{size * (size - 1) / 2, size << 60}));
    EXPECT_EQ(max, (std::vector<int64_t>{size - 1, 0}));
    EXPECT_EQ(min, (std::vector<int64_t>{0, 1 - size}));
  });
}

// One and halves of its last bit: in rank order they would all be rounded away.
TEST_P(RanksTest, ReducesDoublesInTreeOrder) {
  on_every_rank([](Ranks& ranks) {
    auto value_of = [](int rank) { return rank == 0 ? 1.0 : 0x1p-53; };
    std::vector<double> level;
    for (int rank = 0; rank < ranks.size(); ++rank) level.push_back(value_of(rank));
    for (size_t step = 1; step < level.size(); step *= 2) {
      for (size_t i = 0; i + step < level.size(); i += 2 * step)
        level[i] += level[i + step];
    }
    double value = value_of(ranks.rank());
    ranks.all_reduce(std::span(&value, 1), ReduceOp::kSum, "norm");
    EXPECT_EQ(value, level[0]);
    if (ranks.size() == 4) {
      EXPECT_EQ(value, 1 + 0x1p-52);
    }
  });
}

TEST_P(RanksTest, OneNanIsTheMaximumEverywhere) {
  on_every_rank([](Ranks& ranks) {
    double value = ranks.rank() == ranks.size() / 2 ? std::nan("") : ranks.rank();
    ranks.all_reduce(std::span(&value, 1), ReduceOp::kMax, "max");
    EXPECT_TRUE(std::isnan(value));
  });
}

TEST_P(RanksTest, BroadcastsFromAnyRoot) {
  on_every_rank([](Ranks& ranks) {
    for (int root = 0; root < ranks.size(); ++root) {
      for (int64_t numel : kSizes) {
        Floats values = values_of(ranks.rank(), numel);
        ranks.broadcast(values.data(), numel * 4, root, "broadcast");
        EXPECT_EQ(values, values_of(root, numel));
      }
    }
  });
}

TEST_P(RanksTest, TellTexts) {
  on_every_rank([](Ranks& ranks) {
    const auto text_of = [](int rank) { return std::string(rank * 1000, 'a' + rank); };
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks.broadcast(text_of(ranks.rank()), rank), text_of(rank));
      texts.push_back(text_of(rank));
    }
    EXPECT_EQ(ranks.gather(text_of(ranks.rank())), texts);
    EXPECT_EQ(ranks.gather(""), std::vector<std::string>(ranks.size()));
    EXPECT_EQ(ranks.largest(-ranks.rank(), "largest"), 0);
  });
}

TEST_P(RanksTest, TellNumbers) {
  on_every_rank([](Ranks& ranks) {
    for (const size_t numel : {0, 1, 1000}) {
      std::vector<double> all(ranks.size() * numel), expected;
      for (int rank = 0; rank < ranks.size(); ++rank)
        expected.insert(expected.end(), numel, rank + 0.5);
      const std::vector<double> own(numel, ranks.rank() + 0.5);
      ranks.all_gather(own, all, "numbers");
      EXPECT_EQ(all, expected);
    }
  });
}

// All of them, in every backend of these tests.
TEST_P(RanksTest, ShareAHost) {
  on_every_rank([](Ranks& ranks) {
    EXPECT_EQ(ranks.local_rank(), ranks.rank());
    EXPECT_EQ(ranks.local_size(), ranks.size());
  });
}

TEST_P(RanksTest, BarrierWaitsForEveryone) {
  on_every_rank([](Ranks& ranks) {
    Chaos chaos(ranks.rank() + 1, "barrier", 300);
    for (int i = 0; i < 20; ++i) {
      chaos.delay();
      EXPECT_NO_THROW(ranks.barrier("barrier"));
    }
  });
}

TEST_P(CollectivesTest, CallsOnSeveralStreamsRunInTheOrderOfTheCalls) {
  on_every_rank([](Collectives& comm, Device& device) {
    auto first = device.make_stream("first"), second = device.make_stream("second");
    const int64_t numel = 1000;
    const Floats own = values_of(comm.rank(), numel);
    const Floats values = values_of(comm.rank(), comm.size() * numel);
    std::vector<Floats> to_reduce(20, values);
    Floats full(comm.size() * numel), shard(numel);
    for (int i = 0; i < 20; ++i) {
      comm.all_gather(own.data(), full.data(), numel * 4, "first", *first);
      comm.reduce_scatter(to_reduce[i].data(), shard.data(), numel, DType::kFp32,
                          SumOrder::kTree, "second", *second);
    }
    first->synchronize();
    second->synchronize();
    EXPECT_EQ(full, expected_full(comm.size(), numel));
    EXPECT_EQ(shard, expected_shard(comm.rank(), comm.size(), numel));
  });
}

TEST_P(RanksTest, DuplicatesDoNotDisturbEachOther) {
  on_every_rank([](Ranks& ranks) {
    const auto one = ranks.make_collectives(), other = ranks.make_collectives();
    ASSERT_EQ(other->rank(), ranks.rank());
    ASSERT_EQ(other->size(), ranks.size());
    auto device =
        make_host_device({.chaos_seed = static_cast<uint64_t>(ranks.rank()) + 7});
    auto first = device->make_stream("first"), second = device->make_stream("second");
    const int64_t numel = 100'003;
    const Floats own = values_of(ranks.rank(), numel);
    Floats to_reduce = values_of(ranks.rank(), ranks.size() * numel);
    Floats full(ranks.size() * numel), shard(numel);
    auto gather_many = [&] {
      for (int i = 0; i < 5; ++i)
        one->all_gather(own.data(), full.data(), numel * 4, "a", *first);
    };
    auto reduce_many = [&] {
      for (int i = 0; i < 5; ++i)
        other->reduce_scatter(to_reduce.data(), shard.data(), numel, DType::kFp32,
                              SumOrder::kTree, "b", *second);
    };
    // The two groups agree on no common order.
    ranks.rank() % 2 == 0 ? (gather_many(), reduce_many())
                          : (reduce_many(), gather_many());
    first->synchronize();
    second->synchronize();
    EXPECT_EQ(full, expected_full(ranks.size(), numel));
    EXPECT_EQ(shard, expected_shard(ranks.rank(), ranks.size(), numel));
  });
}

TEST_P(RanksTest, SplitsByColor) {
  on_every_rank([](Ranks& ranks) {
    auto part = ranks.split(ranks.rank() % 2 == 0 ? 7 : -7);
    const int num_even = (ranks.size() + 1) / 2;
    EXPECT_EQ(part->size(), ranks.rank() % 2 == 0 ? num_even : ranks.size() - num_even);
    EXPECT_EQ(part->rank(), ranks.rank() / 2);

    auto stream = make_inline_stream("part");
    const auto own = static_cast<float>(ranks.rank());
    Floats expected;
    for (int rank = ranks.rank() % 2; rank < ranks.size(); rank += 2) {
      expected.push_back(static_cast<float>(rank));
    }
    EXPECT_EQ(gather(*part->make_collectives(), {own}, *stream), expected);
    EXPECT_EQ(gather(*part->duplicate()->make_collectives(), {own}, *stream), expected);
  });
}

void expect_mesh_works(const Mesh& mesh, int rank, Collectives& comm, Collectives& across,
                       Stream& stream) {
  ASSERT_EQ(comm.rank(), mesh.member_of(rank));
  ASSERT_EQ(across.rank(), mesh.group_of(rank));
  constexpr int64_t kNumel = 130;
  Floats slices = values_of(mesh.slice_of(rank), kNumel);
  Floats of_group(kNumel * across.size()), all(of_group.size() * mesh.group);
  Floats sums = values_of(rank, kNumel * mesh.size), part(of_group.size()), own(kNumel);
  const Drained drained(stream);
  across.all_gather(slices.data(), of_group.data(), kNumel * 4, "a", stream);
  comm.all_gather(of_group.data(), all.data(), std::ssize(of_group) * 4, "a", stream);
  comm.reduce_scatter(sums.data(), part.data(), std::ssize(part), DType::kFp32,
                      SumOrder::kTree, "a", stream);
  across.reduce_scatter(part.data(), own.data(), kNumel, DType::kFp32, SumOrder::kTree,
                        "a", stream);
  stream.synchronize();
  EXPECT_EQ(all, expected_full(mesh.size, kNumel)) << mesh.group;
  // Of groups, and then of what they have.
  std::vector<Floats> sums_of_groups;
  for (int first = 0; first < mesh.size; first += mesh.group) {
    std::vector<Floats> of_ranks;
    for (int peer = first; peer < first + mesh.group; ++peer)
      of_ranks.push_back(slice(values_of(peer, kNumel * mesh.size),
                               mesh.slice_of(rank) * kNumel, kNumel));
    sums_of_groups.push_back(tree_of(of_ranks));
  }
  EXPECT_EQ(bits_of(own), bits_of(tree_of(sums_of_groups))) << mesh.group;
}

// With both a rank has calls on the way, in one order.
TEST_P(RanksTest, AMeshGathersAndReducesBothWays) {
  on_every_rank([](Ranks& ranks) {
    const auto device = make_host_device({.chaos_seed = 5});
    const int rank = ranks.rank();
    for (int group = 1; group <= ranks.size(); ++group) {
      if (ranks.size() % group != 0) continue;
      const Mesh mesh(ranks.size(), group);
      const auto stream = device->make_stream("mesh");
      const auto comm = ranks.split(mesh.group_of(rank))->make_collectives();
      const auto across = ranks.split(mesh.member_of(rank))->make_collectives();
      expect_mesh_works(mesh, rank, *comm, *across, *stream);
    }
  });
}

TEST_P(CollectivesTest, DifferentTagsDiverge) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    const bool is_last = comm.rank() == comm.size() - 1;
    const Error error = error_of(
        [&] { gather(comm, Floats(100), *stream, is_last ? "blocks.5" : "blocks.4"); });
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    EXPECT_THAT(
        error.problem(),
        AllOf(HasSubstr("ranks diverged: rank 0 all_gather 'blocks.4' (400 bytes)"),
              HasSubstr("rank " + std::to_string(comm.size() - 1) +
                        " all_gather 'blocks.5' (400 bytes)")));
  });
}

TEST_P(CollectivesTest, DifferentOperationsDiverge) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("comm");
    const Floats values(comm.size() * 10);
    const Error error = error_of([&] {
      comm.rank() == 0 ? reduce(comm, values, *stream, "blocks.4")
                       : gather(comm, Floats(10), *stream, "blocks.4");
    });
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    EXPECT_THAT(error.problem(), AllOf(HasSubstr("rank 0 reduce_scatter 'blocks.4'"),
                                       HasSubstr("rank 1 all_gather 'blocks.4'")));
  });
}

TEST_P(CollectivesTest, DifferentSizesDiverge) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const int64_t largest = std::min<int64_t>(4'000'000, GetParam().most_bytes);
  on_every_rank([&](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    const int64_t numel = comm.rank() == 0 ? 1'000'000 : 1;  // many rounds against one
    const Error error = error_of([&] { gather(comm, Floats(numel), *stream); });
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
    EXPECT_THAT(error.problem(), AllOf(HasSubstr(std::to_string(largest) + " bytes"),
                                       HasSubstr("4 bytes")));
  });
}

TEST_P(RanksTest, DifferentRootsAndReductionsDiverge) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Ranks& ranks) {
    int64_t value = 1;
    const int root = ranks.rank() == 0 ? 0 : 1;
    auto broadcast = [&] { ranks.broadcast(&value, 8, root, "value"); };
    EXPECT_EQ(error_of(broadcast).code(), ExitCode::kDiverged);
  });
  on_every_rank([](Ranks& ranks) {
    int64_t value = 1;
    const ReduceOp op = ranks.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax;
    auto reduce = [&] { ranks.all_reduce(std::span(&value, 1), op, "value"); };
    EXPECT_EQ(error_of(reduce).code(), ExitCode::kDiverged);
  });
  on_every_rank([](Ranks& ranks) {
    int64_t integer = 1;
    double number = 1;
    auto reduce = [&] {
      ranks.rank() == 0
          ? ranks.all_reduce(std::span(&integer, 1), ReduceOp::kSum, "value")
          : ranks.all_reduce(std::span(&number, 1), ReduceOp::kSum, "value");
    };
    EXPECT_EQ(error_of(reduce).code(), ExitCode::kDiverged);
  });
}

TEST_P(CollectivesTest, LongTagsAreComparedToTheirEnd) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    const std::string tag = std::string(300, 'x') + (comm.rank() == 0 ? "a" : "b");
    EXPECT_EQ(error_of([&] { gather(comm, Floats(1), *stream, tag); }).code(),
              ExitCode::kDiverged);
  });
}

TEST_P(CollectivesTest, AFailureEndsThem) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    const std::string tag = comm.rank() == 0 ? "a" : "b";
    error_of([&] { gather(comm, Floats(1), *stream, tag); });
    EXPECT_EQ(error_of([&] { gather(comm, Floats(1), *stream, "c"); }).code(),
              ExitCode::kDiverged);
  });
}

TEST_P(RanksTest, AFailureEndsTheGroup) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Ranks& ranks) {
    error_of([&] { ranks.barrier(ranks.rank() == 0 ? "a" : "b"); });
    EXPECT_EQ(error_of([&] { ranks.barrier("c"); }).code(), ExitCode::kDiverged);
    EXPECT_EQ(error_of([&] { ranks.duplicate(); }).code(), ExitCode::kDiverged);
    EXPECT_EQ(error_of([&] { ranks.make_collectives(); }).code(), ExitCode::kDiverged);
  });
}

TEST_P(CollectivesTest, ADivergenceReachesWhoeverWaitsForTheEvent) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  on_every_rank([](Collectives& comm, Device& device) {
    auto stream = device.make_stream("gather");
    Event event;
    Floats shard(4), full(4 * comm.size());
    const Drained drained(*stream);
    const Error error = error_of([&] {  // or the call throws, if it is known by then
      comm.all_gather(shard.data(), full.data(), 16, comm.rank() == 0 ? "a" : "b",
                      *stream);
      stream->record(event);
      event.synchronize();
    });
    EXPECT_EQ(error.code(), ExitCode::kDiverged);
  });
}

TEST_P(RanksTest, RandomMixturesGiveTheSerialResults) {
  on_every_rank([](Ranks& ranks) {
    std::vector<std::unique_ptr<Collectives>> comms;
    comms.push_back(ranks.make_collectives());
    comms.push_back(ranks.make_collectives());
    auto device = make_host_device({.chaos_seed = static_cast<uint64_t>(ranks.rank()) + 1,
                                    .max_chaos_delay_us = 50});
    auto first = device->make_stream("first"), second = device->make_stream("second");
    std::mt19937 random(5);  // the same plan on all ranks
    for (uint32_t round = 0; round < 30; ++round) {
      const auto num_gathered = static_cast<int64_t>(random() % 3000);
      const auto num_reduced = static_cast<int64_t>(random() % 3000);
      Floats gathered(ranks.size() * num_gathered), reduced(num_reduced);
      const Floats own = values_of(ranks.rank(), num_gathered, round);
      Floats full = values_of(ranks.rank(), ranks.size() * num_reduced, round);
      const int which = random() % 2;
      comms[which]->all_gather(own.data(), gathered.data(), num_gathered * 4, "a",
                               *first);
      comms[1 - which]->reduce_scatter(full.data(), reduced.data(), num_reduced,
                                       DType::kFp32, SumOrder::kTree, "b", *second);
      double losses[2] = {1, 2.0 * ranks.rank()};
      comms[which]->all_reduce(losses, SumOrder::kTree, "losses", *first);
      const int64_t vote = ranks.largest(ranks.rank(), "vote");
      first->synchronize();
      second->synchronize();
      EXPECT_EQ(vote, ranks.size() - 1);
      EXPECT_EQ(losses[0], ranks.size());
      EXPECT_EQ(losses[1], ranks.size() * (ranks.size() - 1));
      EXPECT_EQ(gathered, expected_full(ranks.size(), num_gathered, round));
      EXPECT_EQ(reduced, expected_shard(ranks.rank(), ranks.size(), num_reduced, round));
    }
  });
}

}  // namespace zero
