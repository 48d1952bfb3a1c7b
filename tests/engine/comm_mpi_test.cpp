// The suite of comm_suite.cpp with ranks as processes: mpirun -n 1..4 comm_mpi_test.
// Exits with 1 on every rank if any rank saw a failure.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/comm/mpi_ranks.h"
#include "engine/comm/mpi_transport.h"
#include "tests/engine/comm_suite.h"

namespace zero::comm_mpi_test {
namespace {

// Rank 0 prints as usual; the others only their failures.
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

Backend mpi_backend(const std::string& name, const MpiSession& session,
                    const MpiRanksOptions& options) {
  return {name, session.size(),
          [=](const Backend::Rank& body) { run_rank(body, *make_mpi_ranks(options)); }};
}

class MpiSessionTest : public ::testing::Test {};

TEST_F(MpiSessionTest, CountsTheRanksOfThisHost) {
  MpiSession second;  // finalises nothing: the first one initialised
  EXPECT_EQ(second.local_rank(), second.rank());
  EXPECT_EQ(second.local_size(), second.size());
}

TEST_F(MpiSessionTest, WorldHoldsAllRanks) {
  MpiSession session;
  auto world = make_world_ranks(&session);
  EXPECT_EQ(world->rank(), session.rank());
  EXPECT_EQ(world->size(), session.size());
}

int run_tests(MpiSession& session) {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (session.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(session.rank()));
  }
  int has_failed = RUN_ALL_TESTS();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &has_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
            "MPI_Allreduce");
  return has_failed;
}

// Parameters are made after MPI_Init, so that they know the number of ranks.
const MpiSession* session_of_tests = nullptr;

std::vector<Backend> backends() {
  const MpiSession& session = *session_of_tests;
  return {mpi_backend("shared", session, {}),
          mpi_backend("shared_small_slots", session, {.slot_bytes = 4096}),
          mpi_backend("messages", session, {.use_shared_memory = false}),
          mpi_backend("small_messages", session,
                      {.use_shared_memory = false, .max_message_bytes = 40'000})};
}

INSTANTIATE_TEST_SUITE_P(Mpi, RanksTest, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Mpi, CollectivesTest, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace zero::comm_mpi_test

int main(int argc, char** argv) {
  zero::MpiSession session;
  zero::comm_mpi_test::session_of_tests = &session;
  ::testing::InitGoogleTest(&argc, argv);
  return zero::comm_mpi_test::run_tests(session);
}
