#include "engine/options/check_options.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zero/errors.h"

namespace zero::check_options_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = LrSchedule::Kind;

// What is wrong with options on one rank that computes on the host.
std::vector<std::string> problems(const Options& options) {
  std::vector<std::string> all;
  for (const OptionProblem& problem : problems_of(options, 1, UnitMemory::kHost))
    all.push_back(problem.what);
  return all;
}

std::vector<std::string> problems(const LrSchedule& schedule) {
  Options options;
  options.schedule = schedule;
  options.optimizer.weight_decay = 0;
  return problems(options);
}

std::vector<std::string> problems_of_rates(double lr, double min_lr) {
  return problems({.kind = Kind::kCosine, .lr = lr, .min_lr = min_lr, .total_steps = 9});
}

TEST(CheckOptions, TheFirstProblemIsThrownWithWhatIsAllowed) {
  Options options;
  options.schedule.min_lr = 1;
  options.prefetch = -1;
  const OptionProblem first = problems_of(options, 3, UnitMemory::kHost).front();
  EXPECT_THAT(first.options, ElementsAre("schedule.lr", "schedule.min_lr"));
  EXPECT_THAT(problems(options),
              ElementsAre("min_lr 1 is above lr 0.0003", "prefetch is -1"));
  try {
    check(options, 3, UnitMemory::kHost);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.problem(), "min_lr 1 is above lr 0.0003");
    EXPECT_EQ(error.cure(), "0 to lr");
  }
  EXPECT_NO_THROW(check({}, 3, UnitMemory::kHost));
}

TEST(CheckOptions, RatesThatAreNone) {
  EXPECT_THAT(problems_of_rates(1, 1), IsEmpty());
  EXPECT_EQ(problems_of_rates(-1, 0).front(), "lr is -1");
  EXPECT_EQ(problems_of_rates(NAN, 0).front(), "lr is nan");
  EXPECT_THAT(problems_of_rates(1, 2), ElementsAre("min_lr 2 is above lr 1"));
  EXPECT_THAT(problems_of_rates(1, -0.5), ElementsAre("min_lr is -0.5"));
  EXPECT_THAT(problems_of_rates(1, NAN), ElementsAre("min_lr is nan"));
}

TEST(CheckOptions, TheRateMustFitAFloat) {
  EXPECT_THAT(problems_of_rates(std::numeric_limits<float>::max(), 0), IsEmpty());
  EXPECT_THAT(problems_of_rates(1e39, 0), ElementsAre("lr is 1e+39"));
  EXPECT_THAT(problems_of_rates(1e300, 0), ElementsAre("lr is 1e+300"));
  EXPECT_EQ(problems_of_rates(INFINITY, 0).front(), "lr is inf");
}

TEST(CheckOptions, StepsThatDoNotFitTogether) {
  const auto steps = [](Kind kind, int64_t warmup, int64_t total, int64_t decay = 0) {
    return problems({.kind = kind,
                     .warmup_steps = warmup,
                     .total_steps = total,
                     .decay_steps = decay});
  };
  EXPECT_THAT(steps(Kind::kLinear, 100, 100), IsEmpty());
  EXPECT_THAT(steps(Kind::kConstant, 5, 0), IsEmpty());
  EXPECT_THAT(steps(Kind::kLinear, 0, 0), ElementsAre("total_steps is 0"));
  EXPECT_THAT(steps(Kind::kLinear, -1, 100), ElementsAre("warmup_steps is -1"));
  EXPECT_THAT(steps(Kind::kWsd, 0, 100, -3), ElementsAre("decay_steps is -3"));
  EXPECT_THAT(steps(Kind::kLinear, 101, 100),
              ElementsAre("warmup_steps 101 is above steps 100"));
  EXPECT_THAT(steps(Kind::kWsd, 10, 100, 90), IsEmpty());
  EXPECT_THAT(steps(Kind::kWsd, 10, 100, 91),
              ElementsAre("decay_steps 91 is above steps - warmup_steps = 90"));
  EXPECT_THAT(steps(Kind::kWsd, 101, 100, 91),
              ElementsAre("warmup_steps 101 is above steps 100"));
  EXPECT_THAT(steps(Kind::kCosine, 0, 100, 1),
              ElementsAre("decay_steps belongs to schedule wsd, not to cosine"));
}

TEST(CheckOptions, LossScalesThatWouldRoundOrNeverMove) {
  const auto scales = [](const LossScaleOptions& scale) {
    Options options;
    options.dtype = DType::kFp16;
    options.loss_scale = scale;
    return problems(options);
  };
  EXPECT_THAT(scales({}), IsEmpty());
  EXPECT_THAT(scales({.init = 1, .window = 1, .min = 1}), IsEmpty());
  EXPECT_THAT(scales({.init = kLargestLossScale, .min = kLargestLossScale}), IsEmpty());
  EXPECT_THAT(scales({.init = 3}), ElementsAre("loss_scale_init is 3"));
  EXPECT_EQ(scales({.init = 0}).front(), "loss_scale_init is 0");
  EXPECT_EQ(scales({.init = -8}).front(), "loss_scale_init is -8");
  EXPECT_THAT(scales({.init = int64_t{1} << 25}),
              ElementsAre("loss_scale_init is 33554432"));
  EXPECT_THAT(scales({.min = 6}), ElementsAre("loss_scale_min is 6"));
  EXPECT_THAT(scales({.min = 0}), ElementsAre("loss_scale_min is 0"));
  EXPECT_THAT(scales({.init = 4, .min = 8}),
              ElementsAre("loss_scale_min 8 is above loss_scale_init 4"));
  EXPECT_THAT(scales({.window = 0}), ElementsAre("loss_scale_window is 0"));
}

// What is wrong after a change to options that are good for one GPU.
std::vector<std::string> problems_on_gpu(const std::function<void(Options&)>& change) {
  Options options;
  change(options);
  std::vector<std::string> all;
  for (const OptionProblem& problem : problems_of(options, 1, UnitMemory::kGpu))
    all.push_back(problem.what);
  return all;
}

TEST(CheckOptions, NumbersHaveRanges) {
  const auto problem = [](const std::function<void(Options&)>& change) {
    const std::vector<std::string> all = problems_on_gpu(change);
    return all.size() == 1 ? all[0] : std::to_string(all.size()) + " problems";
  };
  EXPECT_EQ(problem([](Options& o) { o.device_state_fraction = 1.5; }),
            "device_state_fraction is 1.5");
  EXPECT_EQ(problem([](Options& o) { o.clip = -1; }), "clip is -1");
  EXPECT_EQ(problem([](Options& o) { o.device_memory = -1; }), "device_memory is -1");
  EXPECT_EQ(problem([](Options& o) { o.offload_min_bytes = -1; }),
            "offload_min_bytes is -1");
  EXPECT_EQ(problem([](Options& o) { o.nominal_targets = 0; }), "nominal_targets is 0");
  EXPECT_EQ(problem([](Options& o) { o.micro_batches_per_rank = 0; }),
            "micro_batches_per_rank is 0");
  EXPECT_EQ(problem([](Options& o) { o.recompute.every = -1; }), "recompute.every is -1");
  for (const int threads : {-1, 4097})
    EXPECT_EQ(problem([&](Options& o) { o.adam_threads = threads; }),
              "adam_threads is " + std::to_string(threads));
  EXPECT_THAT(problems_on_gpu([](Options& o) { o.adam_threads = 4096; }), IsEmpty());
}

TEST(CheckOptions, InitialValuesAreOnesThatCanBeDrawn) {
  const auto with_init = [](const InitSpec& spec) {
    return problems_on_gpu([&](Options& o) { o.init = {{"h.*", spec}}; });
  };
  for (const InitSpec& spec :
       {uniform(1, 1), normal(0, 0), ones(), truncated_normal(0, 1, -INFINITY, 2)})
    EXPECT_THAT(with_init(spec), IsEmpty()) << to_string(spec);
  for (const InitSpec& spec :
       {uniform(1, -1), normal(0, -1), normal(NAN, 1), constant(INFINITY),
        truncated_normal(0, 1, 2, -2), truncated_normal(0, NAN, -2, 2),
        truncated_normal(0, INFINITY, -2, 2), truncated_normal(0, 1e8, -1, 1),
        constant(1e39), normal(0, 1e39), uniform(-3e38, 3e38)})
    EXPECT_THAT(with_init(spec), ElementsAre("'h.*' starts as " + to_string(spec)));
}

TEST(CheckOptions, GroupsAreCheckedWithTheirOwnNumbers) {
  const auto with_group = [](double lr_scale, std::optional<double> decay) {
    return problems_on_gpu([&](Options& o) {
      o.groups = {{"h.*", lr_scale, decay, false}};
    });
  };
  EXPECT_THAT(with_group(0.5, 0.2), IsEmpty());
  EXPECT_THAT(
      with_group(-1, {}),
      ElementsAre("parameter group 'h.*': lr is -0.0003, must be in [0, 3.4e38]"));
  EXPECT_THAT(
      with_group(1, -1),
      ElementsAre("parameter group 'h.*': weight_decay is -1, must be in [0, 3.4e38]"));
  EXPECT_THAT(with_group(1, 1e35),
              ElementsAre("parameter group 'h.*': learning rate times weight decay is "
                          "beyond what a float holds"));
}

TEST(CheckOptions, ARefusedConstantIsToldOnceWithItsOption) {
  const auto problem = [](const std::function<void(Options&)>& change) {
    Options options;
    options.groups = {{"h.*", 0.5, {}, false}};
    change(options);
    const auto all = problems_of(options, 1, UnitMemory::kGpu);
    return all.size() == 1 ? all[0].options : std::vector<std::string>{"several"};
  };
  EXPECT_THAT(problem([](Options& o) { o.optimizer.weight_decay = 1e300; }),
              ElementsAre("optimizer.weight_decay"));
  EXPECT_THAT(problem([](Options& o) { o.optimizer.beta2 = 1; }),
              ElementsAre("optimizer.betas"));
  EXPECT_THAT(problem([](Options& o) { o.groups[0].weight_decay = -1; }),
              ElementsAre("groups"));
}

TEST(CheckOptions, WhatBelongsToAnotherTypeIsRefused) {
  EXPECT_THAT(problems_on_gpu([](Options& o) { o.loss_scale.init = 4; }),
              ElementsAre("loss_scale_init belongs to dtype fp16, not to fp32"));
  EXPECT_THAT(problems_on_gpu([](Options& o) { o.master = MasterStorage::kSplit; }),
              ElementsAre("master split belongs to dtype bf16, which is its high half, "
                          "not to fp32"));
}

TEST(CheckOptions, FrozenWeightsAreOfATypeThatIsDecoded) {
  for (const DType type : {DType::kFp32, DType::kBf16, DType::kFp16, DType::kInt8})
    EXPECT_THAT(problems_on_gpu([&](Options& o) { o.frozen_dtype = type; }), IsEmpty());
  for (const DType type : {DType::kFp64, DType::kUint8, DType::kInt32})
    EXPECT_THAT(problems_on_gpu([&](Options& o) { o.frozen_dtype = type; }),
                ElementsAre(::testing::HasSubstr("frozen_dtype")));
}

TEST(CheckOptions, GradientsInFp16AreRefusedWithTheReasonWhyBf16Serves) {
  for (DType Options::*type : {&Options::reduce_dtype, &Options::grad_dtype}) {
    Options options;
    options.*type = DType::kFp16;
    const OptionProblem only = problems_of(options, 1, UnitMemory::kHost).front();
    EXPECT_EQ(only.allowed, kTypesOfGradients);
  }
}

TEST(CheckOptions, MeansInBf16MustBeAbleToFall) {
  const auto with_betas = [](double beta1, double beta2) {
    return problems_on_gpu([&](Options& o) {
      o.state_dtype = DType::kBf16;
      o.optimizer.beta1 = beta1;
      o.optimizer.beta2 = beta2;
    });
  };
  EXPECT_THAT(with_betas(0.9, kLargestBf16Beta), IsEmpty());
  for (const auto& [beta1, beta2] : {std::pair(0.9, 0.999), std::pair(0.999, 0.9)})
    EXPECT_THAT(with_betas(beta1, beta2),
                ElementsAre("state_dtype bf16 with betas of up to 0.999"));
}

TEST(CheckOptions, FunctionsMakeNoValuesThatAreThere) {
  for (const Source source : {Source::kRank0, Source::kEveryRank}) {
    Options options;
    options.source = source;
    EXPECT_THAT(problems(options), IsEmpty());
    options.init_types.emplace_back();
    EXPECT_THAT(problems(options), ElementsAre("init functions with a source that holds "
                                               "the model's values already"));
  }
}

TEST(CheckOptions, UnitsAddUpRowsInAnOrderOfTheirOwn) {
  Options options;
  options.accumulate = Accumulate::kUnit;
  EXPECT_THAT(problems(options), ElementsAre("accumulate unit without micro_batch"));
  options.micro_batch = 1;
  EXPECT_THAT(problems(options), IsEmpty());
  options.deterministic = true;
  EXPECT_THAT(problems(options), ElementsAre("deterministic mode with accumulate unit"));
}

// On one rank a batch norm sees half of what two of them see together.
TEST(CheckOptions, DeterministicModeHasNoSynchronisedBatchNorm) {
  Options options;
  options.sync_batch_norm = true;
  EXPECT_THAT(problems(options), IsEmpty());
  options.deterministic = true;
  EXPECT_THAT(problems(options), ElementsAre("deterministic mode with sync_batch_norm"));
}

TEST(CheckOptions, PassesOfIgnoredParametersAddUpInAnOrderOfTheirOwn) {
  Options options;
  options.deterministic = true;
  options.micro_batches_per_rank = 2;
  options.ignored = {{"a", false}};
  EXPECT_THAT(problems(options), IsEmpty());
  options.ignored.push_back({"b"});
  EXPECT_THAT(problems(options),
              ElementsAre("deterministic mode with gradients of ignored parameters that "
                          "are averaged, and several passes"));
  options.micro_batches_per_rank = 1;
  EXPECT_THAT(problems(options), IsEmpty());
}

TEST(CheckOptions, WhereNothingIsTrainedNothingIsUpdatedOrRecomputed) {
  const auto change = [](Options& o) {
    o.optimizer.kind = Optimizer::kSgd;
    o.offload = Offload::kNone;
  };
  EXPECT_EQ(problems_on_gpu(change).size(), 1u);
  EXPECT_THAT(problems_on_gpu([&](Options& o) { change(o), o.inference = true; }),
              IsEmpty());
  Options options;
  options.offload_activations = true;
  EXPECT_EQ(problems(options).size(), 1u);
  options.inference = true;
  EXPECT_THAT(problems(options), IsEmpty());
}

TEST(CheckOptions, ActivationsAreOffloadedForRecomputation) {
  const auto recomputed = [](Recompute recompute) {
    return problems_on_gpu([&](Options& o) {
      o.offload_activations = true;
      o.recompute = recompute;
    });
  };
  EXPECT_THAT(recomputed(Recompute::kUnit), IsEmpty());
  EXPECT_EQ(recomputed(Recompute::kNone).size(), 1u);
}

TEST(CheckOptions, WhatHoldsForSomeUnitsIsCheckedAsForAll) {
  Options options;
  options.unit_options = {{"a", DType::kBf16}};
  EXPECT_THAT(problems(options), IsEmpty());
  options.dtype = DType::kFp16;
  EXPECT_THAT(problems(options),
              ElementsAre("unit 'a' of dtype bf16 where dtype is fp16"));
  options.unit_options = {{"a", DType::kFp32}};
  EXPECT_THAT(problems(options), IsEmpty());
  options.unit_options = {{"a", {}, {}, Offload::kNone}};
  EXPECT_THAT(problems(options),
              ElementsAre(::testing::HasSubstr("unit 'a': offload none is for a GPU")));
  EXPECT_THAT(problems_on_gpu([](Options& o) {
                o.unit_options = {{"a", {}, {}, Offload::kNone}};
              }),
              IsEmpty());
}

TEST(CheckOptions, GroupsOfRanksAreEqual) {
  Options options;
  const auto are_refused = [&](int group) {
    options.shard_ranks = group;
    return !problems_of(options, 6, UnitMemory::kHost).empty();
  };
  for (const int group : {0, 1, 2, 3, 6}) EXPECT_FALSE(are_refused(group)) << group;
  for (const int group : {-2, 4, 5, 12}) EXPECT_TRUE(are_refused(group)) << group;
  options.speculate_bytes = 1;
  EXPECT_FALSE(are_refused(6));
  EXPECT_TRUE(are_refused(3));
}

TEST(CheckOptions, DeterministicSumsOfGroupsArePartsOfOneTree) {
  Options options;
  options.deterministic = true;
  options.shard_ranks = 2;
  const auto are_refused = [&](int64_t passes, DType wire = DType::kFp32) {
    options.micro_batches_per_rank = passes;
    options.reduce_dtype = wire;
    return !problems_of(options, 4, UnitMemory::kHost).empty();
  };
  EXPECT_FALSE(are_refused(4));
  EXPECT_TRUE(are_refused(3));
  EXPECT_TRUE(are_refused(4, DType::kBf16));
  options.shard_ranks = 4;
  EXPECT_FALSE(are_refused(3, DType::kBf16));
}

TEST(CheckOptions, DeterministicSumsNeedAPowerOfTwoOfRanks) {
  Options options;
  options.deterministic = true;
  const auto are_refused = [&](int num_ranks) {
    return !problems_of(options, num_ranks, UnitMemory::kHost).empty();
  };
  EXPECT_FALSE(are_refused(1));
  EXPECT_FALSE(are_refused(8));
  EXPECT_TRUE(are_refused(3));
  EXPECT_TRUE(are_refused(6));
  EXPECT_TRUE(are_refused(12));
}

}  // namespace
}  // namespace zero::check_options_test
