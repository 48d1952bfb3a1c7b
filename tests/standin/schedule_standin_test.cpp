// The schedule of a step on a GPU, recorded: what is queued where and behind what is the
// list in engine/README.md, and its edges alone keep all memory from being used too
// early.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/engine/small_models.h"
#include "tests/standin/gpu_of_tests.h"
#include "tests/standin/ordering.h"
#include "tests/standin/schedule.h"

namespace zero::testing::schedule_standin_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kWidth = 32, kRows = 8;

struct BlockImpl : torch::nn::Module {
  BlockImpl() { w = register_parameter("w", values({kWidth, kWidth}, -0.3, 0.2)); }
  at::Tensor forward(const at::Tensor& x) { return x + torch::matmul(x, w).sin(); }
  at::Tensor w;
};

// A root with a parameter of its own, and three units, of which a forward may skip one.
struct StackImpl : torch::nn::Module {
  StackImpl() {
    embed = register_parameter("embed", values({kWidth, kWidth}));
    for (int i = 0; i < 3; ++i) blocks->push_back(Unit<BlockImpl>::make());
    register_module("blocks", blocks);
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::matmul(x, embed);
    int next = 0;
    for (auto& block : *blocks)
      if (next++ != skipped) x = block.value()(x);
    return x.to(at::kFloat).pow(2).sum();
  }
  at::Tensor embed;
  UnitList<BlockImpl> blocks{std::make_shared<UnitListImpl<BlockImpl>>()};
  int skipped = -1;
};

struct Case {
  std::string name = "AStep";
  int num_passes = 1;
  int skipped = -1;
  void (*change)(Options&) = [](Options&) {};
  int num_ranks = 1;
};
void PrintTo(const Case& given, std::ostream* to) { *to << given.name; }

Options options_of(const Case& given) {
  Options options;
  given.change(options);
  return options;
}

bool has_drafts(const Case& given) { return options_of(given).speculate_bytes > 0; }
bool has_groups(const Case& given) { return options_of(given).shard_ranks > 0; }

// Steps are marked at their begin, and the last one at its end. The third is looked at:
// by then each is as the one before, or, where masters and drafts change places, as the
// one before that.
constexpr int kNumSteps = 6, kStep = 2;

// Of one rank; the first is recorded.
Schedule run(const Case& given, std::unique_ptr<Ranks> ranks) {
  const bool is_recorded = ranks->rank() == 0;
  if (is_recorded) {
    of_standin<void()>("standin_start_recording")();
    Trace::start();
  }
  Options options;
  options.adam_threads = 1;
  options.device = DeviceChoice::kCuda;
  options.dtype = DType::kBf16;
  options.micro_batches_per_rank = given.num_passes;
  given.change(options);
  auto model = std::make_shared<StackImpl>();
  model->skipped = given.skipped;
  Engine engine(model, options, std::move(ranks));
  auto* const mark = of_standin<void()>("standin_mark_recording");
  for (int step = 0; step < kNumSteps; ++step) {
    if (is_recorded) mark();
    for (int pass = 0; pass < given.num_passes; ++pass) {
      const at::Tensor batch = values({kRows, kWidth}, -1 - step, 1 + pass);
      engine.backward(engine.forward(model, batch), kRows);
    }
    engine.step();
  }
  if (is_recorded) mark();
  engine.shards();  // waits for the updates
  if (!is_recorded) return {};
  standin::Recording recording;
  of_standin<void(standin::Recording*)>("standin_finish_recording")(&recording);
  return make_schedule(recording, Trace::finish());
}

Schedule record(const Case& given) {
  of_standin<void()>("standin_reset")();
  Schedule schedule;
  on_ranks(given.num_ranks, [&](std::unique_ptr<Ranks> ranks) {
    const bool is_recorded = ranks->rank() == 0;
    Schedule made = run(given, std::move(ranks));
    if (is_recorded) schedule = std::move(made);
  });
  return schedule;
}

// --- the list

// Lines of a section's first block, without what indents them.
std::string list_in_readme(const std::string& section) {
  std::ifstream readme(ZERO_SOURCE_DIR "/engine/README.md");
  std::string text;
  bool is_inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("## ")) is_inside = line == "## " + section;
    const bool is_of_list = line.starts_with("    ");
    if (is_inside && is_of_list) text += line.substr(4) + "\n";
    if (is_inside && !is_of_list && !text.empty()) break;
  }
  return text;
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string block;
  for (std::string line; std::getline(lines, line);) block += "    " + line + "\n";
  return block;
}

TEST(StepSchedule, IsTheListInTheReadme) {
  const Schedule schedule = record({});
  const std::string list = text_of(schedule, kStep);
  EXPECT_EQ(list, list_in_readme("The schedule of a step on a GPU"))
      << "if that is meant, it belongs there:\n"
      << indented(list);
}

// From a lane to an entry: the `number`th in a step of this lane, name and memory.
struct Edge {
  std::string name;
  Case of;
  std::string from_lane, lane, what, memory = "";
  int number = 0;
};
void PrintTo(const Edge& edge, std::ostream* to) { *to << edge.name; }

size_t find_entry(const Schedule& schedule, const Edge& edge) {
  int left = edge.number;
  for (size_t i = schedule.marks[kStep]; i < schedule.marks[kStep + 1]; ++i) {
    const Entry& entry = schedule.entries[i];
    const bool uses_memory =
        edge.memory.empty() ||
        std::ranges::any_of(entry.accesses, [&](const standin::Access& access) {
          return access.name == edge.memory;
        });
    if (entry.lane == edge.lane && entry.what == edge.what && uses_memory && left-- == 0)
      return i;
  }
  throw std::runtime_error("no such entry: " + edge.lane + " " + edge.what);
}

// The training thread waits for the GPU in step() alone, for losses and gradients; and in
// a backward for the updates, which are the host's.
TEST(StepSchedule, TheTrainingThreadWaitsForNothingElse) {
  for (const int num_passes : {1, 2, 5}) {
    const Schedule schedule = record({"", num_passes});
    std::vector<std::set<std::string>> waits;
    for (size_t i = schedule.marks[kStep]; i < schedule.marks[kStep + 1]; ++i) {
      const Entry& entry = schedule.entries[i];
      if (entry.lane != "training") continue;
      EXPECT_THAT(entry.accesses, IsEmpty());
      std::set<std::string>& lanes = waits.emplace_back();
      for (const size_t before : entry.after) lanes.insert(schedule.entries[before].lane);
    }
    std::set<std::string> in_step = {"compute", "copy out"};
    if (num_passes > 1) in_step.insert("gradients");
    ASSERT_EQ(waits.size(), num_passes + 2);
    EXPECT_EQ(waits.back(), in_step);
    waits.pop_back();
    EXPECT_THAT(waits.back(), ElementsAre("compute"));  // losses
    waits.pop_back();
    EXPECT_THAT(waits, ::testing::Each(ElementsAre("updates")));
  }
}

// A unit is updated while the one below it is still at its backward.
TEST(StepSchedule, DraftsAreMadeBesideTheBackward) {
  const Schedule schedule =
      record({"", 1, -1, [](Options& options) { options.speculate_bytes = 1 << 20; }});
  const Ordering ordering(schedule);
  for (const int block : {2, 1}) {
    const size_t draft = find_entry(
        schedule, {"", {}, "", "updates", "draft blocks." + std::to_string(block)});
    const size_t backward = find_entry(
        schedule,
        {"", {}, "", "compute", "backward blocks." + std::to_string(block - 1)});
    EXPECT_LT(draft, backward);
    EXPECT_FALSE(ordering.is_before(draft, backward));
  }
}

// The NaN that it writes into slots is ordered, too.
TEST(StepSchedule, OrdersWhatChaosWrites) {
  EXPECT_THAT(find_races(record(
                  {"InChaos", 1, -1, [](Options& options) { options.chaos_seed = 1; }})),
              IsEmpty());
}

// --- its order

class StepSchedules : public ::testing::TestWithParam<Case> {};

TEST_P(StepSchedules, AreTheSameInEveryStep) {
  const Schedule schedule = record(GetParam());
  const int period = has_drafts(GetParam()) ? 2 : 1;
  EXPECT_EQ(text_of(schedule, kStep), text_of(schedule, kStep + period));
}

TEST_P(StepSchedules, OrderAllUsesOfMemory) {
  EXPECT_THAT(find_races(record(GetParam())), IsEmpty());
}

const Case kOffloading = {"Offloading", 1, -1, [](Options& options) {
                            options.offload_activations = true;
                            options.offload_min_bytes = 1;
                          }};
const Case kThreePasses = {"ThreePasses", 3};
const Case kTwoRanks = {"TwoRanks", 2, -1, [](Options&) {}, 2};
const Case kSkippingTheLast = {"SkippingTheLastUnit", 1, 2};

const Case kWeights = {"WeightsOnTheGpu", 1, -1,
                       [](Options& options) { options.offload = Offload::kOptimizer; }};
const Case kStates = {"StatesOnTheGpu", 2, -1,
                      [](Options& options) { options.offload = Offload::kNone; }};
const Case kStatesSkipping = {"StatesOnTheGpuSkippingTheLastUnit", 1, 2,
                              [](Options& options) { options.offload = Offload::kNone; }};
const Case kStatesOfTwo = {"StatesOnTheGpusOfTwoRanks", 2, -1,
                           [](Options& options) { options.offload = Offload::kNone; }, 2};

const Case kSums = {"SumsOnTheGpu", 2, -1,
                    [](Options& options) { options.grad_sums = GradSums::kDevice; }};
const Case kRoundedSums = {"RoundedSumsOnTheGpu", 2, -1, [](Options& options) {
                             options.grad_sums = GradSums::kDevice;
                             options.grad_dtype = DType::kBf16;
                           }};

const Case kDrafts = {"Drafts", 1, -1, [](Options& options) {
                        options.speculate_bytes = 1 << 20;
                        options.clip = 0;
                      }};
const Case kDraftsOfThreePasses = {"DraftsOfThreePasses", 3, -1, kDrafts.change};
const Case kDraftsSkipping = {"DraftsSkippingTheLastUnit", 1, 2, kDrafts.change};

const Case kCases[] = {
    {"OnePass"},
    kThreePasses,
    {"Fp32", 1, -1, [](Options& options) { options.dtype = DType::kFp32; }},
    {"GradientsInBf16", 2, -1,
     [](Options& options) { options.grad_dtype = options.reduce_dtype = DType::kBf16; }},
    {"WithoutPrefetch", 2, -1, [](Options& options) { options.prefetch = 0; }},
    {"WithMorePrefetch", 2, -1, [](Options& options) { options.prefetch = 2; }},
    {"KeptGraphs", 2, -1, [](Options& options) { options.recompute = Recompute::kNone; }},
    {"KeptWeights", 2, -1,
     [](Options& options) { options.reshard_after_forward = false; }},
    {"UpdatesInsideTheStep", 1, -1,
     [](Options& options) { options.overlap_updates = false; }},
    {"SplitMasters", 1, -1,
     [](Options& options) { options.master = MasterStorage::kSplit; }},
    kTwoRanks,
    {"OnePassOfTwoRanks", 1, -1, [](Options&) {}, 2},
    {"RoundedOnTwoRanks", 1, -1,
     [](Options& options) { options.grad_dtype = DType::kBf16; }, 2},
    {"TwoRanksWithOrderedSums", 1, -1,
     [](Options& options) { options.deterministic = true; }, 2},
    kOffloading,
    kWeights,
    kStates,
    kStatesSkipping,
    kStatesOfTwo,
    {"StatesOnTheGpuInOrder", 2, -1,
     [](Options& options) {
       options.offload = Offload::kNone;
       options.deterministic = true;
     }},
    kSums,
    kRoundedSums,
    {"SumsOnTheGpusOfTwoRanks", 2, -1, kRoundedSums.change, 2},
    {"SumsOnTheGpuInOrder", 2, -1,
     [](Options& options) {
       kRoundedSums.change(options);
       options.deterministic = true;
     }},
    {"SumsAndSomeStatesOnTheGpu", 2, -1,
     [](Options& options) {
       kSums.change(options);
       options.device_state_fraction = 0.6;
     }},
    {"SomeStatesOnTheGpu", 2, -1,
     [](Options& options) { options.device_state_fraction = 0.6; }},
    {"WeightsOnTheGpuThatAreGathered", 1, -1,
     [](Options& options) {
       options.offload = Offload::kOptimizer;
       options.stream_always = true;
     }},
    kDrafts,
    kDraftsOfThreePasses,
    kDraftsSkipping,
    {"DraftsSkippingTheFirstUnit", 1, 0, kDrafts.change},
    {"DraftsOfSome", 1, -1,
     [](Options& options) {
       kDrafts.change(options);
       options.speculate_bytes = 2 * kWidth * kWidth * 12;
     }},
    {"DraftsThatAreClipped", 1, -1,
     [](Options& options) {
       kDrafts.change(options);
       options.clip = 1e-3;
     }},
    {"DraftsInFp32", 1, -1,
     [](Options& options) {
       kDrafts.change(options);
       options.dtype = DType::kFp32;
     }},
    {"DraftsOfSumsOnTheGpu", 2, -1,
     [](Options& options) {
       kDrafts.change(options);
       options.grad_sums = GradSums::kDevice;
     }},
    {"DraftsAndWeightsOnTheGpu", 1, -1,
     [](Options& options) {
       kDrafts.change(options);
       options.offload = Offload::kOptimizer;
     }},
    {"DraftsOfTwoRanks", 2, -1, kDrafts.change, 2},
    {"TwoGroups", 2, -1, [](Options& options) { options.shard_ranks = 1; }, 2},
    {"TwoGroupsOfTwo", 1, -1, [](Options& options) { options.shard_ranks = 2; }, 4},
    {"StatesOnTheGpusOfTwoGroups", 2, -1,
     [](Options& options) {
       options.shard_ranks = 1;
       options.offload = Offload::kNone;
     },
     2},
    kSkippingTheLast,
    {"SkippingTheFirstUnit", 1, 0},
    {"SkippingTheSecondUnit", 2, 1},
};

INSTANTIATE_TEST_SUITE_P(, StepSchedules, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// --- what each edge is for

Schedule without(Schedule schedule, size_t entry, const std::string& from_lane) {
  const size_t num_removed = std::erase_if(
      schedule.entries[entry].after,
      [&](size_t before) { return schedule.entries[before].lane == from_lane; });
  EXPECT_GT(num_removed, 0u);
  return schedule;
}

class NeededEdge : public ::testing::TestWithParam<Edge> {};

TEST_P(NeededEdge, IsMissed) {
  const Edge& edge = GetParam();
  const Schedule schedule = record(edge.of);
  ASSERT_THAT(find_races(schedule), IsEmpty());
  EXPECT_THAT(find_races(without(schedule, find_entry(schedule, edge), edge.from_lane)),
              ::testing::Not(IsEmpty()));
}

const Edge kNeeded[] = {
    {"AGatherWaitsForTheUnitsUpdate",
     {},
     "updates",
     "communication",
     "copy",
     "blocks.1 bf16 copy"},
    {"AGatherWaitsForTheSlotsLastReader",
     {},
     "compute",
     "communication",
     "copy",
     "blocks.2 bf16 copy"},
    {"AGatherInBackwardWaitsForTheSlotsLastReader",
     {},
     "compute",
     "communication",
     "copy",
     "blocks.0 bf16 copy",
     1},
    {"TheRootWaitsForItsWeights", {}, "communication", "compute", "forward"},
    {"AForwardWaitsForItsWeights", {}, "communication", "compute", "forward blocks.0"},
    {"ABackwardWaitsForWeightsThatCameAgain",
     {},
     "communication",
     "compute",
     "recompute blocks.0"},
    {"ASlotIsFilledWhenItHasBeenCopiedOut", {}, "copy out", "compute", "fill blocks.0"},
    {"ASlotIsCopiedOutWhenItIsFull",
     {},
     "compute",
     "copy out",
     "copy",
     "blocks.2 gradients"},
    {"UpdatesBeginWhenAllHasArrived", {}, "copy out", "training", "wait", "", 2},
    {"APassIsCopiedOutWhenItIsLaidOut", kThreePasses, "compute", "copy out", "copy",
     "landing"},
    {"ALandingIsUsedAgainWhenItWasAdded", kThreePasses, "gradients", "copy out", "copy",
     "landing", 4},
    {"AGradientIsAddedWhenItHasArrived", kThreePasses, "copy out", "gradients",
     "sum blocks.2"},
    {"UpdatesBeginWhenAllIsAdded", kThreePasses, "gradients", "training", "wait", "", 4},
    {"ASumLeavesWhenItIsWhole", kSums, "compute", "copy out", "copy",
     "blocks.1 gradients"},
    {"ASumIsRoundedWhereTheLastHasLeft", kRoundedSums, "copy out", "compute",
     "fill blocks.0", "", 1},
    {"AnInputGoesOutWhenItWasMade", kOffloading, "compute", "activations out", "copy"},
    {"AnInputLeavesTheDeviceWhenItIsOut", kOffloading, "activations out", "compute",
     "backward blocks.1"},
    {"AnInputComesBackIntoMemoryThatNobodyUses", kOffloading, "compute",
     "activations back", "copy"},
    {"ARecomputationWaitsForItsInput", kOffloading, "activations back", "compute",
     "recompute blocks.0"},
    {"ARanksShardIsGatheredWhenItIsUpdated", kTwoRanks, "updates", "communication",
     "copy", "blocks.1 bf16 copy"},
    {"ASlotIsReducedWhenItIsFull", kTwoRanks, "compute", "communication", "copy",
     "gradient ring"},
    {"AReducedShardLandsWhereTheLastWasAdded", kTwoRanks, "gradients", "communication",
     "copy", "landing", 4},
    {"ADraftWaitsForItsGradient", kDrafts, "copy out", "updates", "draft blocks.1"},
    {"ADraftWaitsForTheSum", kDraftsOfThreePasses, "gradients", "updates",
     "draft blocks.1"},
    {"ADraftWaitsForReadersOfTheWeights", kDraftsSkipping, "communication", "updates",
     "draft blocks.2"},
    {"AGatherWaitsForADraft", kDrafts, "updates", "communication", "copy",
     "(root) bf16 copy"},
    {"WeightsThatStayFollowTheirUpdate", kWeights, "updates", "device updates", "copy",
     "blocks.1 bf16 copy"},
    {"AForwardWaitsForWeightsThatStay", kWeights, "device updates", "compute",
     "forward blocks.1"},
    {"AForwardWaitsForTheGpusUpdate", kStates, "device updates", "compute",
     "forward blocks.0"},
    {"ASkippedUnitsGradientWaitsForTheGpusUpdate", kStatesSkipping, "device updates",
     "compute", "backward", "", 1},
    {"ARanksShardIsGatheredWhenTheGpuUpdatedIt", kStatesOfTwo, "device updates",
     "communication", "copy", "gather ring", 0},
    {"ASkippedUnitsGradientWaitsForItsUpdate", kSkippingTheLast, "updates", "training",
     "wait"},
};

INSTANTIATE_TEST_SUITE_P(, NeededEdge, ::testing::ValuesIn(kNeeded),
                         [](const auto& info) { return info.param.name; });

// Nothing waits in vain: an edge that memory could do without says what others say
// already; but for a loss that the host reads, or a norm, and updates of units that were
// skipped.
TEST_P(StepSchedules, HaveNoEdgeForNothing) {
  const Schedule schedule = record(GetParam());
  const Ordering whole(schedule);
  std::vector<std::string> for_nothing;
  for (size_t i = schedule.marks[kStep]; i < schedule.marks[kStep + 1]; ++i) {
    std::set<std::string> lanes;
    for (const size_t before : schedule.entries[i].after)
      lanes.insert(schedule.entries[before].lane);
    for (const std::string& lane : lanes) {
      const Schedule less = without(schedule, i, lane);
      if (find_races(less).empty() && Ordering(less) != whole)
        for_nothing.push_back(schedule.entries[i].lane + " waits for " + lane);
    }
  }
  if (GetParam().num_ranks > 1)  // a norm, too
    std::erase(for_nothing, "training waits for communication");
  if (has_groups(GetParam())) std::erase(for_nothing, "training waits for gradients");
  // Whether a draft is taken is known when the norm is, which a wait tells before.
  if (has_drafts(GetParam())) {
    std::erase(for_nothing, "training waits for copy out");
    std::erase(for_nothing, "training waits for gradients");
  }
  EXPECT_THAT(for_nothing,
              ::testing::Each(::testing::AnyOf("training waits for updates",
                                               "training waits for compute")));
}

}  // namespace
}  // namespace zero::testing::schedule_standin_test
