#include "launcher/process/world.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "engine/comm/memory_file.h"
#include "engine/comm/started_ranks.h"
#include "launcher/process/process.h"
#include "launcher/process/process_setup.h"
#include "offload/affinity.h"

namespace zero::launcher::world_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;

TEST(AnnouncedWorld, NobodyAnnouncesAProcessStartedByItself) {
  EXPECT_FALSE(announced_world(
      {"HOME=/", "SLURM_NTASKS=4", "SLURM_PROCID=0", "OMPI_COMM_WORLD_SIZE_X=3"}));
}

TEST(AnnouncedWorld, MpirunThenTheStepOfSrun) {
  const auto mpirun =
      announced_world({"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0",
                       "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3"});
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->size, 4);
  EXPECT_EQ(mpirun->rank, 3);
  const auto srun = announced_world(
      {"SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "PMIX_RANK=1"});
  ASSERT_TRUE(srun);
  EXPECT_EQ(srun->size, 2);
  EXPECT_EQ(srun->rank, 1);
}

// It has died since it was asked for.
TEST(World, ARankWhoseStarterIsGoneIsToldSo) {
  EXPECT_THROW(World(AnnouncedWorld{kStarterVariable, 2, 0}), Error);
}

TEST(AnnouncedWorld, OneRankIsAWorldToo) {
  const auto one = announced_world({"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0"});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->size, 1);
}

TEST(AnnouncedWorld, PmixTellsThatThereAreRanksButNotHowMany) {
  const auto pmix = announced_world({"PMIX_NAMESPACE=7.0", "PMIX_RANK=2"});
  ASSERT_TRUE(pmix);
  EXPECT_FALSE(announced_world({"PMIX_RANK=2"})) << "left over";
  EXPECT_EQ(pmix->size, 0);
  EXPECT_EQ(pmix->rank, 2);
}

TEST(AnnouncedWorld, WhatIsNoNumberIsRefusedNotOverlooked) {
  for (const std::string text : {"abc", "", "-1", "4x"}) {
    EXPECT_THROW(announced_world({"OMPI_COMM_WORLD_SIZE=" + text}), Error) << text;
    EXPECT_THROW(announced_world({"SLURM_STEP_NUM_TASKS=" + text}), Error) << text;
  }
}

std::string start_refusal(const std::vector<std::string>& environment,
                          int64_t asked_for = 0) {
  try {
    check_start(environment, announced_world(environment), asked_for);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(CheckStart, WhatTorchrunStartsWouldTrainAlone) {
  std::vector<std::string> elastic = {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2"};
  EXPECT_THAT(start_refusal(elastic), HasSubstr("--ranks 2 ..., or mpirun -n 2"));
  EXPECT_EQ(start_refusal(elastic, 2), "");
  elastic[2] = "WORLD_SIZE=1";
  EXPECT_EQ(start_refusal(elastic), "");
  EXPECT_EQ(start_refusal({"WORLD_SIZE=2"}), "");  // somebody's own
}

TEST(CheckStart, AnAllocationOfSeveralTasksIsNotForOneProcess) {
  const std::vector<std::string> batch = {"SLURM_JOB_ID=7", "SLURM_NTASKS=4"};
  EXPECT_THAT(start_refusal(batch), HasSubstr("srun --mpi=pmix zero_launch train ..., or "
                                              "--ranks 4"));
  EXPECT_EQ(start_refusal(batch, 4), "");
  EXPECT_EQ(start_refusal(batch, 1), "");
  EXPECT_THAT(start_refusal({"SLURM_NTASKS=2"}), HasSubstr("has 2 tasks"));
  EXPECT_EQ(start_refusal({"SLURM_NTASKS=1"}), "");
  EXPECT_EQ(start_refusal({}), "");
}

TEST(CheckStart, SrunNeedsPmix) {
  const std::vector<std::string> step = {"SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4",
                                         "SLURM_PROCID=1"};
  EXPECT_THAT(start_refusal(step), HasSubstr("srun --mpi=pmix zero_launch"));
  std::vector<std::string> good = step;
  good.push_back("PMIX_NAMESPACE=7.0");
  EXPECT_EQ(start_refusal(good), "");
  EXPECT_EQ(start_refusal({"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"}), "");
}

TEST(CheckStart, MpirunsNumberAndOursAgree) {
  const std::vector<std::string> mpirun = {"OMPI_COMM_WORLD_SIZE=4"};
  EXPECT_EQ(start_refusal(mpirun), "");
  EXPECT_EQ(start_refusal(mpirun, 4), "");
  EXPECT_THAT(start_refusal(mpirun, 2),
              HasSubstr("4 ranks were started, and ranks is 2"));
  EXPECT_EQ(start_refusal({"PMIX_NAMESPACE=7.0", "PMIX_RANK=1"}, 2), "")
      << "PMIx does not say how many";
}

std::string refusal(const AnnouncedWorld& announced, int mpi_size) {
  try {
    check_world_size(announced, mpi_size);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    return error.what();
  }
}

TEST(World, FourAnnouncedAndOneInMpiIsRefused) {
  EXPECT_EQ(refusal({"OMPI_COMM_WORLD_SIZE", 4, 0}, 4), "");
  EXPECT_THAT(refusal({"OMPI_COMM_WORLD_SIZE", 4, 0}, 1),
              HasSubstr("announces 4 ranks, MPI sees 1"));
  EXPECT_THAT(refusal({"SLURM_STEP_NUM_TASKS", 4, 0}, 1), HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(refusal({"PMI_SIZE", 2, 1}, 1), HasSubstr("the mpirun of the OpenMPI"));
  EXPECT_EQ(refusal({"PMIX_RANK", 0, 0}, 1), "");
  EXPECT_THAT(refusal({"PMIX_RANK", 0, 1}, 1), HasSubstr("MPI sees 1"));
}

TEST(Process, ItsPeakIsInBytes) { EXPECT_GT(peak_resident_bytes(), 1 << 20); }

TEST(Process, MemoryThatIsMappedTwiceCountsOnce) {
  constexpr int64_t kBytes = 32 << 20;
  const int64_t before = peak_resident_bytes();
  MemoryTicket ticket;
  const MemoryFile file = MemoryFile::create(kBytes, ticket);
  const auto first = file.map(), second = file.map();
  std::memset(first.get(), 1, kBytes);
  EXPECT_EQ(std::count(second.get(), second.get() + kBytes, std::byte{1}), kBytes);
  EXPECT_LT(peak_resident_bytes(), before + kBytes * 3 / 2);
}

TEST(World, AloneWithoutMpi) {
  World world(std::nullopt);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
}

TEST(Binding, ARankPinnedToOneCoreGetsItsShare) {
  EXPECT_THAT(wider_affinity({0}, {0, 1, 2, 3}, 0, 2), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(wider_affinity({1}, {0, 1, 2, 3}, 1, 2), Optional(ElementsAre(2, 3)));
  EXPECT_THAT(wider_affinity({0, 4}, {0, 4, 1, 5, 2, 6, 3, 7}, 0, 1),
              Optional(::testing::SizeIs(8)));
}

TEST(Binding, ARankThatWasStartedHereGetsItsShare) {
  EXPECT_THAT(own_affinity({0, 1, 2, 3}, 1, 2), Optional(ElementsAre(2, 3)));
  EXPECT_THAT(own_affinity({5}, 0, 1), Optional(ElementsAre(5)));
  EXPECT_FALSE(own_affinity({0, 1}, 2, 3)) << "more ranks than CPUs";
}

TEST(Binding, AQuotaIsSharedByTheRanksOfANode) {
  EXPECT_EQ(share_of_quota(8, 0, 2), 8) << "no limit";
  EXPECT_EQ(share_of_quota(8, 5.5, 2), 2);
  EXPECT_EQ(share_of_quota(8, 1.5, 2), 1);
  EXPECT_EQ(share_of_quota(8, 32, 2), 8);
}

TEST(Binding, OthersStayAsTheyAre) {
  EXPECT_FALSE(wider_affinity({0}, {0, 1}, 0, 2));                    // has its share
  EXPECT_FALSE(wider_affinity({0, 1, 2}, {0, 1, 2, 3, 4, 5}, 0, 1));  // somebody chose
                                                                      // three cores
  EXPECT_FALSE(wider_affinity({0}, {0}, 3, 4));  // more ranks than cores
}

TEST(Binding, ThreadsAreTheShareOrOneOrAsAskedFor) {
  EXPECT_EQ(threads_of_variable({"OMP_NUM_THREADS=3"}), 3);
  EXPECT_EQ(threads_of_variable({"OMP_NUM_THREADS=2,4"}), 2);
  for (const char* none : {"OMP_NUM_THREADS=", "OMP_NUM_THREADS=x", "OMP_NUM_THREADS=0",
                           "OMP_NUM_THREADS=4097", "A=1"})
    EXPECT_EQ(threads_of_variable({none}), 0) << none;
  EXPECT_EQ(choose_threads(0, false, 0, 6), 6);
  EXPECT_EQ(choose_threads(0, false, 2, 6), 2);
  EXPECT_EQ(choose_threads(3, false, 2, 6), 3);
  EXPECT_EQ(choose_threads(0, true, 2, 6), 1);
  EXPECT_EQ(choose_threads(3, true, 0, 6), 3);
}

std::pair<int, std::string> again(int64_t saved, bool are_asked_for, int chosen,
                                  int64_t num_cores) {
  const ThreadsAgain again =
      choose_threads_again(saved, are_asked_for, chosen, num_cores);
  return {again.threads, again.note};
}

TEST(Binding, ThreadsOfACheckpointAreTakenOver) {
  EXPECT_THAT(again(2, false, 1, 2), Pair(2, ""));
  EXPECT_THAT(again(1, false, 8, 8), Pair(1, ""));
  EXPECT_THAT(again(2, false, 2, 2), Pair(2, ""));
}

TEST(Binding, ACheckpointThatTellsNoThreadsChangesNothing) {
  EXPECT_THAT(again(0, false, 3, 4), Pair(3, ""));
  EXPECT_THAT(again(0, true, 3, 1), Pair(3, ""));
}

TEST(Binding, ThreadsThatTheCoresCannotRunAreSaid) {
  EXPECT_THAT(again(4, false, 1, 1),
              Pair(1, "threads was 4; a rank has 1 core: 1, so bits may differ"));
  EXPECT_THAT(again(4, false, 3, 3),
              Pair(3, "threads was 4; a rank has 3 cores: 3, so bits may differ"));
}

TEST(Binding, OtherThreadsThatAreSetAreSaid) {
  EXPECT_THAT(again(2, true, 4, 8), Pair(4, "threads was 2, is 4, so bits may differ"));
  EXPECT_THAT(again(4, true, 4, 1), Pair(4, "")) << "more than cores: as asked for";
}

TEST(Binding, ThreadsOfTheOptimizerThatAreSetAreNotMeasured) {
  const ThreadChoice choice = choose_adam_threads(4096, 1 << 20);
  EXPECT_EQ(choice.threads, 4096);
  EXPECT_THAT(choice.rates, IsEmpty());
}

TEST(Binding, ThreadsOfTheOptimizerAreMeasured) {
  const int num_cpus = static_cast<int>(current_affinity().size());
  EXPECT_EQ(choose_adam_threads(0, 1 << 20).rates.size(),
            num_cpus == 1 ? 0 : threads_to_try(num_cpus).size());
}

}  // namespace
}  // namespace zero::launcher::world_test
