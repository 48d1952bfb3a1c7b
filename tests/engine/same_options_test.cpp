#include <unistd.h>

#include <cstdio>
#include <map>

#include "engine/options/check_options.h"
#include "tests/engine/unit_contract.h"

namespace zero::testing::same_options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace nn = torch::nn;

struct LineImpl : nn::Module {
  explicit LineImpl(int64_t size = 3) { w = register_parameter("w", values({size})); }
  at::Tensor forward(const at::Tensor& x) { return x * w; }
  at::Tensor w;
};

using Change = std::function<void(Options&)>;

class SameOptions : public ::testing::Test {
 protected:
  SameOptions() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.schedule.total_steps = 100;
    options.micro_batch = 1;
  }
  // What each rank is told when `changes[rank]` is done to its options.
  std::vector<std::string> errors(const std::vector<Change>& changes) {
    std::vector<std::string> texts(changes.size());
    on_ranks(static_cast<int>(changes.size()), [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      Options mine = options;
      changes[rank](mine);
      texts[rank] =
          error_of([&] { Engine(std::make_shared<LineImpl>(), mine, std::move(comm)); },
                   ExitCode::kDiverged);
    });
    return texts;
  }
  Options options;
};

void unchanged(Options&) {}

TEST_F(SameOptions, EveryOptionThatMattersIsComparedAndNamed) {
  const std::map<std::string, Change> changes{
      {"seed", [](Options& o) { o.seed = 9; }},
      {"source", [](Options& o) { o.source = Source::kCheckpoint; }},
      {"schedule", [](Options& o) { o.schedule.kind = LrSchedule::Kind::kCosine; }},
      {"lr", [](Options& o) { o.schedule.lr *= 1 + 1e-15; }},
      {"min_lr", [](Options& o) { o.schedule.min_lr = 1e-9; }},
      {"warmup_steps", [](Options& o) { o.schedule.warmup_steps = 1; }},
      {"total_steps", [](Options& o) { o.schedule.total_steps = 101; }},
      {"decay_steps", [](Options& o) { o.schedule.decay_steps = 1; }},
      {"betas", [](Options& o) { o.optimizer.beta2 = 0.99; }},
      {"eps", [](Options& o) { o.optimizer.eps = 1e-7; }},
      {"weight_decay", [](Options& o) { o.optimizer.weight_decay = 0; }},
      {"weight_decay_on", [](Options& o) { o.weight_decay_on = WeightDecayOn::kAll; }},
      {"clip", [](Options& o) { o.clip = 1; }},
      {"norm", [](Options& o) { o.norm = NormType::kInf; }},
      {"dtype", [](Options& o) { o.dtype = DType::kBf16; }},
      {"loss_scale", [](Options& o) { o.loss_scale.init = 2; }},
      {"reduce_dtype", [](Options& o) { o.reduce_dtype = DType::kBf16; }},
      {"nominal_targets", [](Options& o) { o.nominal_targets = 2; }},
      {"deterministic", [](Options& o) { o.deterministic = true; }},
      {"micro_batches_per_rank", [](Options& o) { o.micro_batches_per_rank = 2; }},
      {"inference", [](Options& o) { o.inference = true; }},
      {"average_buffers_each_step",
       [](Options& o) { o.average_buffers_each_step = true; }},
      {"micro_batches_change_buffers",
       [](Options& o) { o.micro_batches_change_buffers = true; }},
      {"sync_batch_norm", [](Options& o) { o.sync_batch_norm = true; }},
      {"init_report", [](Options& o) { o.init_report = true; }},
      {"group 'w'",
       [](Options& o) {
         o.groups = {{"w", 2, {}, false}};
       }},
      {"init '*'",
       [](Options& o) {
         o.init = {{"*", normal(0, 1)}};
       }},
      {"unit 'w'",
       [](Options& o) {
         o.unit_options = {{"w", DType::kBf16, {}, {}}};
       }},
      {"shard_ranks", [](Options& o) { o.shard_ranks = 1; }},
      {"device", [](Options& o) { o.device = DeviceChoice::kAuto; }},
      {"pin", [](Options& o) { o.pin = Pin::kTransfers; }},
      {"overlap_updates", [](Options& o) { o.overlap_updates = false; }},
      {"speculate_bytes", [](Options& o) { o.speculate_bytes = 1; }},
      {"prefetch", [](Options& o) { o.prefetch = 2; }},
      {"reshard_after_forward", [](Options& o) { o.reshard_after_forward = false; }},
      {"recompute", [](Options& o) { o.recompute = Recompute::kNone; }},
      {"offload_activations", [](Options& o) { o.offload_activations = true; }},
      {"offload_min_bytes", [](Options& o) { o.offload_min_bytes = 1; }},
      {"accumulate", [](Options& o) { o.accumulate = Accumulate::kUnit; }},
      {"micro_batch", [](Options& o) { o.micro_batch = 2; }},
      {"auto_wrap.min_numel", [](Options& o) { o.auto_wrap.min_numel = 2; }},
      {"auto_wrap.type", [](Options& o) { o.auto_wrap.types = {"X"}; }},
      {"stream_always", [](Options& o) { o.stream_always = true; }}};
  for (const auto& [name, change] : changes) {
    for (const std::string& text : errors({unchanged, change}))
      EXPECT_THAT(text, HasSubstr("different options: " + name + " (rank 1)\n"));
  }
}

TEST_F(SameOptions, BothOptionsOfMomentumAreCompared) {
  const auto other = [](Options& o) { o.optimizer.momentum = 0.5; };
  const auto nesterov = [](Options& o) { o.optimizer.nesterov = true; };
  for (const Change& change : {Change(other), Change(nesterov)})
    for (const std::string& text : errors({unchanged, change}))
      EXPECT_THAT(text, HasSubstr("different options: momentum (rank 1)\n"));
}

TEST_F(SameOptions, RanksOfAHostAreNoNumberOfRanks) {
  const auto of_host = [](Options& o) { o.shard_ranks = kRanksOfHost; };
  const auto two = [](Options& o) { o.shard_ranks = 2; };
  for (const std::string& text : errors({of_host, two}))
    EXPECT_THAT(text, HasSubstr("different options: shard_ranks (rank 1)\n"));
}

TEST_F(SameOptions, EachDifferenceIsListedWithItsRanks) {
  const auto other_lr = [](Options& o) { o.schedule.lr = 1; };
  const auto other_clip = [](Options& o) { o.clip = 1; };
  const auto both = [&](Options& o) { other_lr(o), other_clip(o); };
  for (const std::string& text : errors({unchanged, other_clip, other_lr, both})) {
    EXPECT_THAT(text,
                HasSubstr("different options: clip (ranks 1, 3), lr (ranks 2, 3)\n"));
  }
}

TEST_F(SameOptions, IgnoredParametersDifferInWhatBecomesOfTheirGradients) {
  const auto ignored = [](bool averaged) {
    return [averaged](Options& o) { o.ignored = {{"w", averaged}}; };
  };
  for (const std::string& text : errors({ignored(true), ignored(false)}))
    EXPECT_THAT(text, HasSubstr("different options: ignored 'w' (rank 1)\n"));
}

TEST_F(SameOptions, GroupsOfOnePatternDifferInWhatTheySay) {
  const auto group = [](const ParamGroup& group) {
    return [group](Options& o) { o.groups = {group}; };
  };
  const auto first = group({"w", 1, {}, false});
  for (const ParamGroup& other : std::vector<ParamGroup>{
           {"w", 2, {}, false}, {"w", 1, 0.0, false}, {"w", 1, {}, true}}) {
    EXPECT_THAT(errors({first, group(other)})[0], HasSubstr("group 'w' (rank 1)"));
  }
}

TEST_F(SameOptions, RulesOfOnePatternDifferInWhatTheySay) {
  using Kind = InitSpec::Kind;
  const auto rule = [](const InitSpec& spec) {
    return [spec](Options& o) { o.init = {{"w", spec}}; };
  };
  const auto first = rule({Kind::kUniform, 1, 2, 3, 4, 5, 6});
  for (const InitSpec& other :
       std::vector<InitSpec>{{Kind::kNormal, 1, 2, 3, 4, 5, 6},
                             {Kind::kUniform, 0, 2, 3, 4, 5, 6},
                             {Kind::kUniform, 1, 0, 3, 4, 5, 6},
                             {Kind::kUniform, 1, 2, 0, 4, 5, 6},
                             {Kind::kUniform, 1, 2, 3, 0, 5, 6},
                             {Kind::kUniform, 1, 2, 3, 4, 0, 6},
                             {Kind::kUniform, 1, 2, 3, 4, 5, 0}}) {
    EXPECT_THAT(errors({first, rule(other)})[0], HasSubstr("init 'w' (rank 1)"));
  }
}

TEST_F(SameOptions, ThreadsTracesAndChaosMayDiffer) {
  const auto change = [](Options& o) {
    o.adam_threads = 2;
    o.chaos_seed = 5;
    o.trace_comm =
        ::testing::TempDir() + "same_options_trace_" + std::to_string(getpid());
    std::remove(o.trace_comm.c_str());
  };
  for (const std::string& text : errors({unchanged, change})) EXPECT_EQ(text, "no error");
}

TEST_F(SameOptions, AnotherModelIsNamedAsSuch) {
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int64_t size = 3 + comm->rank();
    const auto start = [&] {
      Engine(std::make_shared<LineImpl>(size), options, std::move(comm));
    };
    EXPECT_THAT(error_of(start, ExitCode::kDiverged),
                HasSubstr("the model's parameters (rank 1)"));
  });
}

}  // namespace
}  // namespace zero::testing::same_options_test
