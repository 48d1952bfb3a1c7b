#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "checkpoint/error.h"
#include "engine/comm/agreement.h"
#include "engine/comm/thread_ranks.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::comm_agreement_test {
namespace {

using checkpoint::CheckpointError;
using ::testing::HasSubstr;

template <class Play>
void on_ranks(int size, Play play) {
  auto ranks = make_thread_ranks(size);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { play(*rank); });
}

TEST(Agreement, WithoutAFailureAllGoOn) {
  on_ranks(3, [](Ranks& ranks) {
    int num_calls = 0;
    Agreement agreement(ranks, "test");
    agreement.run([&] { ++num_calls; });
    agreement.run([&] { ++num_calls; });
    EXPECT_EQ(num_calls, 2);
  });
}

TEST(Agreement, TheLowestRanksErrorIsEverybodys) {
  on_ranks(4, [](Ranks& ranks) {
    try {
      Agreement(ranks, "test").run([&] {
        if (ranks.rank() == 1) throw CheckpointError("file", "fqn", "problem", "cure");
        if (ranks.rank() == 3) throw std::runtime_error("later");
      });
      ADD_FAILURE() << ranks.rank();
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.file(), "file");
      EXPECT_EQ(error.fqn(), "fqn");
      EXPECT_EQ(error.problem(), "rank 1: problem");
      EXPECT_EQ(error.cure(), "cure");
    }
  });
}

TEST(Agreement, ACheckpointErrorNamesItsRankWhereThereAreOthers) {
  for (const int size : {1, 2}) {
    on_ranks(size, [](Ranks& ranks) {
      try {
        Agreement(ranks, "test").run([&] {
          if (ranks.rank() == 0) throw CheckpointError("file", "fqn", "problem", "cure");
        });
        ADD_FAILURE() << ranks.rank();
      } catch (const CheckpointError& error) {
        EXPECT_EQ(error.problem(), ranks.size() == 1 ? "problem" : "rank 0: problem");
      }
    });
  }
}

TEST(Agreement, AnErrorKeepsItsExitCode) {
  on_ranks(2, [](Ranks& ranks) {
    try {
      Agreement(ranks, "test").run([&] {
        if (ranks.rank() == 0) throw Error(ExitCode::kUsage, "what", "where", "cure");
      });
      ADD_FAILURE() << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(error.problem(), "what");
      EXPECT_EQ(error.where(), "where");
      EXPECT_EQ(error.cure(), "cure");
    }
  });
}

TEST(Agreement, ForeignExceptionsAreTold) {
  for (const int size : {1, 2})
    on_ranks(size, [](Ranks& ranks) {
      try {
        Agreement(ranks, "test").run([] { throw std::runtime_error("by hand"); });
        ADD_FAILURE();
      } catch (const CheckpointError&) {
        ADD_FAILURE() << "it is no file's";
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), HasSubstr("by hand"));
      }
    });
  on_ranks(2, [](Ranks& ranks) {
    EXPECT_THROW(Agreement(ranks, "test").run([] { throw 1; }), std::runtime_error);
  });
}

TEST(Agreement, AllRanksThatDifferAreTold) {
  on_ranks(3, [](Ranks& ranks) {
    Lines lines;
    lines.add("lr", ranks.rank()).add("clip", ranks.rank() / 2);
    try {
      require_same_lines(lines, "different", "cure", ranks);
      ADD_FAILURE() << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "different: clip (rank 2), lr (ranks 1, 2)");
    }
  });
}

TEST(Agreement, EachOfSeveralLinesOfOneNameIsCompared) {
  on_ranks(2, [](Ranks& ranks) {
    Lines lines;
    lines.add("group", ranks.rank()).add("group", 5);
    try {
      require_same_lines(lines, "different", "cure", ranks);
      ADD_FAILURE() << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "different: group (rank 1)");
    }
  });
}

TEST(Agreement, WhatEitherRankLacksIsTold) {
  on_ranks(2, [](Ranks& ranks) {
    Lines lines;
    lines.add(ranks.rank() == 0 ? "a" : "b", 1);
    try {
      require_same_lines(lines, "different", "cure", ranks);
      ADD_FAILURE() << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "different: a (rank 1), b (rank 1)");
    }
  });
}

}  // namespace
}  // namespace zero::comm_agreement_test
