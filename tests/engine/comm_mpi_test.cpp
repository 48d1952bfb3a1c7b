// The suite of comm_suite.cpp with ranks as processes: mpirun -n 1..4 comm_mpi_test.
// Exits with 1 on every rank if any rank saw a failure.
#include <gtest/gtest.h>

#include "engine/comm/mpi.h"
#include "tests/engine/comm_suite.h"

namespace zero::comm_mpi_test {
namespace {

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
  return zero::run_tests_of_rank(*zero::make_world_ranks(&session));
}
