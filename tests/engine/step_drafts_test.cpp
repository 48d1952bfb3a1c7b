// Updates that are made aside while backward runs: taken where they are the step's, and
// whoever looks sees none of them before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "engine/device/host_device.h"
#include "engine/step/update_queue.h"
#include "tests/engine/training.h"
#include "zero/errors.h"

namespace zero::testing::step_drafts_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kNumel = 8;

// What another thread does once it may.
class Held {
 public:
  explicit Held(
      Device& device, std::function<void()> work = [] {})
      : worker_(device.make_worker("held")) {
    worker_->enqueue([this, work = std::move(work)] {
      gate_.get_future().wait();
      work();
    });
    worker_->record(done_);
  }
  const Event& done() const { return done_; }
  void let_go() { gate_.set_value(); }

 private:
  std::promise<void> gate_;
  Event done_;
  std::unique_ptr<HostStream> worker_;  // goes first
};

// Of three units, with eight numbers each in bf16.
struct DraftQueue {
  explicit DraftQueue(MasterStorage master) : options(bf16_with_room(master)) {
    for (int p = 0; p < 3; ++p) {
      std::fill_n(shards[p].grad, kNumel, 1.0f);
      shards[p].masters(0, kNumel).write(0, std::vector<float>(kNumel, 3.0f));
      std::fill_n(shards[p].copy, kNumel, float_to_bf16(3.0f));
    }
  }
  static Options bf16_with_room(MasterStorage master) {
    Options options;
    options.dtype = DType::kBf16;
    options.master = master;
    options.speculate_bytes = 1 << 20;
    return options;
  }
  static UnitPlan plan_of(const Options& options) {
    const std::vector<UnitDescription> units = {
        {"", "Model", -1}, {"a", "Block", 0}, {"b", "Block", 0}};
    const std::vector<ParamDescription> params = {{"w", {kNumel}, {"w"}, {0}},
                                                  {"a.w", {kNumel}, {"a.w"}, {1}},
                                                  {"b.w", {kNumel}, {"b.w"}, {2}}};
    return make_unit_plan(units, params, options, 1);
  }

  void draft_all(float factor = 1) {
    queue.expect({1, 1, 1}, 0.5, factor);
    for (const int unit : {2, 1, 0}) queue.draft(unit, {});
  }
  // Until they are made: one that has not begun is left out where nobody takes it.
  void wait_for_drafts() {
    for (int p = 0; p < 3; ++p) {
      const std::atomic_ref<uint16_t> copy(shards[p].copy[kNumel - 1]);
      while (copy == float_to_bf16(3.0f)) std::this_thread::yield();
    }
  }
  float master(int part) { return shards[part].masters(0, kNumel).read_all()[0]; }
  float copy(int part) { return bf16_to_float(shards[part].copy[0]); }

  const Options options;
  const UnitPlan plan = plan_of(options);
  const MemoryPlan memory = make_memory_plan(plan, options);
  const std::unique_ptr<Device> device = make_host_device();
  ShardStore shards{plan, memory, *device, /*rank=*/0};
  const std::unique_ptr<Collectives> comm = make_lone_collectives();
  ThreadPool threads{1};
  UpdateQueue queue{Workplace{plan, memory, options, shards, *device, *comm, threads}};
};

class Drafts : public ::testing::TestWithParam<MasterStorage>, public DraftQueue {
 protected:
  Drafts() : DraftQueue(GetParam()) {}
};

class DraftsOfWholeMasters : public ::testing::Test, public DraftQueue {
 protected:
  DraftsOfWholeMasters() : DraftQueue(MasterStorage::kFp32) {}
};

class DraftsOfHalves : public ::testing::Test, public DraftQueue {
 protected:
  DraftsOfHalves() : DraftQueue(MasterStorage::kSplit) {}
};

TEST_P(Drafts, AreNotMadeOfUnitsThatAreLeftAlone) {
  EXPECT_FALSE(queue.may_draft(1)) << "nobody knows what is expected";
  queue.expect({1, 0, 1}, 0.5, 1);
  EXPECT_FALSE(queue.may_draft(1));
  EXPECT_TRUE(queue.may_draft(2));
}

TEST_P(Drafts, ChangeNoMasterUntilTheyAreTaken) {
  const float* const old = shards[1].state[0];
  draft_all();
  if (GetParam() == MasterStorage::kFp32) {
    EXPECT_EQ(master(1), 3);
  }
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_NE(shards[1].state[0], old);
  EXPECT_EQ(queue.movements(), std::vector<Movement>(3, {1, 1}));
  EXPECT_LT(master(1), 3);
  EXPECT_EQ(copy(1), GetParam() == MasterStorage::kFp32
                         ? bf16_to_float(float_to_bf16(master(1)))
                         : join_float(split_float(master(1)).high, 0));
  EXPECT_GT(shards[1].state[0][0], 0);
  EXPECT_GT(shards[1].state[1][0], 0);
  EXPECT_EQ(queue.num_drafts(), 3);
  EXPECT_EQ(queue.num_taken(), 3);
}

TEST_P(Drafts, AreMadeAgainWhereTheStepIsAnother) {
  draft_all();
  queue.begin({1, 1, 1}, 0.5, 0.25);  // clipped
  queue.finish();
  EXPECT_EQ(queue.num_drafts(), 3);
  EXPECT_EQ(queue.num_taken(), 0);
  EXPECT_FLOAT_EQ(shards[2].state[0][0], 0.025f);
  draft_all();
  queue.begin({1, 1, 1}, 0.25, 1);  // another rate
  EXPECT_EQ(queue.num_taken(), 0);
  draft_all();
  queue.begin({1, 2, 1}, 0.5, 1);  // one parameter counts its updates otherwise
  EXPECT_EQ(queue.num_taken(), 2);
}

TEST_P(Drafts, ThatHaveNotBegunAreLeftOutWhereNobodyTakesThem) {
  Held gradient(*device);
  queue.expect({1, 1, 1}, 0.5, 1);
  queue.draft(1, {&gradient.done()});
  queue.begin({1, 1, 1}, 0.5, 0.25);
  gradient.let_go();
  queue.finish();
  EXPECT_EQ(shards[1].draft.state[0][0], 0);
  EXPECT_LT(master(1), 3);
}

// What is read lies aside once a draft is taken: the next update leaves it alone, and the
// next draft waits.
TEST_F(DraftsOfWholeMasters, LeaveAloneWhatSomebodyReads) {
  const float* const is_read = shards[1].master;
  float seen = 0;
  Held reader(*device, [&] { seen = is_read[0]; });
  for (int unit = 0; unit < 3; ++unit) queue.hold_back(unit, reader.done());
  draft_all();
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_EQ(queue.num_taken(), 3);
  queue.begin({2, 2, 2}, 0.5, 1);  // in place
  queue.finish();
  EXPECT_LT(master(1), 3);
  draft_all();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for one that won't wait
  reader.let_go();
  queue.begin({1, 1, 1}, 0.5, 1);
  queue.finish();
  EXPECT_EQ(seen, 3);
  EXPECT_NE(is_read[0], 3);
}

// What is read from now on is the shard, wherever earlier readers look.
TEST_F(DraftsOfWholeMasters, ThatWereTakenAreReadAsTheShard) {
  draft_all();
  queue.begin({1, 1, 1}, 0.5, 1);
  queue.finish();
  const float taken = master(1);
  float seen = 0;
  Held reader(*device, [&] { seen = master(1); });
  queue.hold_back(1, reader.done());
  queue.begin({2, 2, 2}, 0.5, 1);  // in place
  queue.updated(0).synchronize();
  EXPECT_FALSE(queue.updated(1).query());
  reader.let_go();
  queue.finish();
  EXPECT_EQ(seen, taken);
  EXPECT_LT(master(1), taken);
}

TEST_P(Drafts, ThatAreDroppedLeaveAllAsItWas) {
  draft_all();
  wait_for_drafts();
  queue.finish();
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(master(p), 3);
    EXPECT_EQ(copy(p), 3);
    EXPECT_EQ(shards[p].state[0][0], 0);
  }
  EXPECT_FALSE(queue.may_draft(1));
  EXPECT_EQ(queue.movements(), std::vector<Movement>(3)) << "of what was thrown away";
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_EQ(queue.num_drafts(), 0);
}

// Where the step finds that nothing used a unit's parameters.
TEST_P(Drafts, LeaveNothingInWeightsThatTheStepLeavesAlone) {
  draft_all();
  wait_for_drafts();
  queue.begin({1, 0, 1}, 0.5, 1);
  queue.finish();
  EXPECT_EQ(queue.num_taken(), 2);
  EXPECT_EQ(master(1), 3);
  EXPECT_EQ(copy(1), 3);
}

TEST_P(Drafts, OfAUnitThatIsReadIsDroppedAlone) {
  draft_all();
  queue.ready(1).synchronize();
  EXPECT_EQ(copy(1), 3);
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_EQ(queue.num_taken(), 2);
  queue.finish();
  EXPECT_EQ(master(1), master(2));
}

INSTANTIATE_TEST_SUITE_P(Of, Drafts,
                         ::testing::Values(MasterStorage::kFp32, MasterStorage::kSplit),
                         [](const auto& info) {
                           return info.param == MasterStorage::kSplit ? "halves"
                                                                      : "whole_masters";
                         });

// Their high halves have one place: whoever reads them holds drafts and updates back,
// wherever the rest of them is written.
TEST_F(DraftsOfHalves, WaitForAnyReader) {
  const StoredValues is_read = shards[1].masters(0, kNumel);
  std::vector<float> seen;
  Held reader(*device, [&] { seen = is_read.read_all(); });
  queue.hold_back(1, reader.done());
  queue.expect({1, 1, 1}, 0.5, 1);
  queue.draft(1, {});
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_EQ(queue.num_taken(), 1);
  queue.begin({2, 2, 2}, 0.5, 1);
  EXPECT_FALSE(queue.updated(1).query());
  reader.let_go();
  queue.finish();
  EXPECT_THAT(seen, ::testing::Each(3.0f));
}

TEST_F(DraftsOfHalves, AreDroppedByASave) {
  draft_all();
  wait_for_drafts();
  queue.updated(1).synchronize();
  EXPECT_EQ(master(1), 3);
  queue.begin({1, 1, 1}, 0.5, 1);
  EXPECT_EQ(queue.num_taken(), 2);
  queue.finish();
  EXPECT_LT(master(1), 3);
}

// The update in place begins with the masters of before.
TEST_F(DraftsOfHalves, AreUndoneWhereTheStepIsAnother) {
  draft_all();
  wait_for_drafts();
  queue.begin({1, 1, 1}, 0.5, 0.25);
  queue.finish();
  DraftQueue without(MasterStorage::kSplit);
  without.queue.begin({1, 1, 1}, 0.5, 0.25);
  without.queue.finish();
  for (int p = 0; p < 3; ++p) EXPECT_EQ(master(p), without.master(p));
}

// A draft that was never made has kept nothing.
TEST_F(DraftsOfHalves, ThatHaveNotBegunAreNotUndone) {
  Held gradient(*device);
  queue.expect({1, 1, 1}, 0.5, 1);
  queue.draft(1, {&gradient.done()});
  const Event& ready = queue.ready(1);
  gradient.let_go();
  ready.synchronize();
  EXPECT_EQ(copy(1), 3);
}

// --- in an engine

constexpr Work kWork{.steps = 6, .micro_batches = 4, .seq_len = 4};

Gpt2Config tiny_gpt2() {
  return {.n_layer = 3, .n_head = 1, .n_embd = 8, .n_positions = 4, .vocab_size = 17};
}

struct Counted {
  int drafts = 0, taken = 0;
};

// The median of its norms, so that half of its steps are clipped.
double median_norm(const Options& options) {
  std::vector<double> norms = train(1, options, kWork, {}, tiny_gpt2()).norms;
  std::ranges::sort(norms);
  return (norms[kWork.steps / 2 - 1] + norms[kWork.steps / 2]) / 2;
}

struct Reader {
  const char* name;
  void (*look)(Engine& engine, Gpt2Impl& model);
};

void nobody(Engine&, Gpt2Impl&) {}

void an_evaluation(Engine& engine, Gpt2Impl& model) {
  const torch::NoGradGuard no_grad;
  const auto [tokens, targets] = batch_of(kWork, 17, 99, engine.rank());
  Gpt2Impl* pointer = &model;
  engine.forward(pointer, tokens, targets);
}

void all_shards(Engine& engine, Gpt2Impl&) { engine.shards(); }

void a_write(Engine& engine, Gpt2Impl&) {
  engine.set_full_parameter("transformer.h.1.ln_1.weight",
                            torch::full({8}, 1.0 + 0.1 * engine.num_steps()));
}

// Between the last backward and the end of a step.
class DraftsInAnEngine : public ::testing::TestWithParam<Reader> {
 protected:
  Trained run(int ranks, const Options& options) {
    Hooks hooks;
    hooks.before_step_end = [](Engine& engine, Gpt2Impl& model, int step) {
      if (step % 3 == 1) GetParam().look(engine, model);
    };
    return train(ranks, options, kWork, hooks, tiny_gpt2());
  }
};

TEST_P(DraftsInAnEngine, ChangeNoBit) {
  const std::pair<DType, MasterStorage> kinds[] = {{DType::kFp32, MasterStorage::kFp32},
                                                   {DType::kBf16, MasterStorage::kFp32},
                                                   {DType::kBf16, MasterStorage::kSplit},
                                                   {DType::kFp16, MasterStorage::kFp32}};
  uint64_t seed = 0;
  for (const auto& [dtype, master] : kinds) {
    Options options = small_options(kWork);
    options.dtype = dtype;
    options.master = master;
    options.clip = median_norm(options);
    for (const int ranks : {1, 2}) {
      const Trained expected = run(ranks, options);
      for (const bool has_room : {true, false}) {
        Options drafting = options;
        drafting.speculate_bytes = has_room ? 1 << 30 : 20000 / ranks;
        drafting.stream_always = has_room;
        drafting.chaos_seed = ++seed;
        SCOPED_TRACE(name_of(dtype) +
                     std::string(master == MasterStorage::kSplit ? " halves " : " ") +
                     std::to_string(ranks) + " ranks, seed " + std::to_string(seed));
        expect_same(run(ranks, drafting), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ReadBy, DraftsInAnEngine,
                         ::testing::Values(Reader{"nobody", nobody},
                                           Reader{"an_evaluation", an_evaluation},
                                           Reader{"all_shards", all_shards},
                                           Reader{"a_write", a_write}),
                         [](const auto& info) { return std::string(info.param.name); });

class DraftsOfAnEngine : public ::testing::Test {
 protected:
  DraftsOfAnEngine() {
    options = small_options(kWork);
    options.dtype = DType::kBf16;
    options.micro_batches_per_rank = 2;
    options.speculate_bytes = 1 << 30;
  }
  void make() {
    model = deferred_gpt2(tiny_gpt2());
    engine = std::make_unique<Engine>(model, options);
  }
  void pass(double factor = 1, int64_t num_targets = 4) {
    const auto [tokens, targets] = batch_of(kWork, 17, 0, num_passes++);
    engine->backward(engine->forward(model, tokens, targets) * factor, num_targets);
  }
  // Units of the step that had a draft, and that took it.
  std::vector<int> step() {
    const StepReport report = engine->step();
    return {report.num_drafts, report.num_drafts_taken};
  }
  std::vector<float> values() {
    Trained all;
    collect_shards(*engine, all);
    std::vector<float> joined;
    for (const auto* map : {&all.params, &all.state}) {
      for (const auto& [name, of_one] : *map)
        joined.insert(joined.end(), of_one.begin(), of_one.end());
    }
    return joined;
  }

  Options options;
  std::shared_ptr<Gpt2Impl> model;
  std::unique_ptr<Engine> engine;
  int num_passes = 0;
};

// But the root, whose weights are used in place as long as the backward runs.
constexpr int kNumUnits = 3;

TEST_F(DraftsOfAnEngine, AreTakenWhereNothingIsClipped) {
  options.clip = 0;
  make();
  pass(), pass();
  EXPECT_THAT(step(), ElementsAre(kNumUnits, kNumUnits));
}

TEST_F(DraftsOfAnEngine, AreNotTakenWhereTheGradientIsClipped) {
  options.clip = 1e-3;
  make();
  pass(), pass();
  EXPECT_THAT(step(), ElementsAre(kNumUnits, 0));
}

TEST_F(DraftsOfAnEngine, AreNoneBehindAStepThatWasClipped) {
  options.clip = 1;
  make();
  pass(1e4), pass(1e4);
  EXPECT_THAT(step(), ElementsAre(kNumUnits, 0));
  pass(1e-4), pass(1e-4);
  EXPECT_THAT(step(), ElementsAre(0, 0));
  pass(1e-4), pass(1e-4);
  EXPECT_THAT(step(), ElementsAre(kNumUnits, kNumUnits));
}

TEST_F(DraftsOfAnEngine, AreNoneWhereAStepHasFewerPasses) {
  make();
  pass();
  EXPECT_THAT(step(), ElementsAre(0, 0));
}

TEST_F(DraftsOfAnEngine, AreDroppedByOnePassMore) {
  make();
  pass(), pass(), pass();
  EXPECT_THAT(step(), ElementsAre(0, 0));
}

TEST_F(DraftsOfAnEngine, AreNotTakenWithAnotherRate) {
  make();
  pass(), pass();
  engine->set_learning_rate(0.5);
  EXPECT_THAT(step(), ElementsAre(kNumUnits, 0));
}

TEST_F(DraftsOfAnEngine, OfAStepThatIsSkippedOrForgottenLeaveNothing) {
  for (const int kind : {0, 1, 2, 3}) {
    const bool forgets = kind % 2 == 1;
    options.master = kind < 2 ? MasterStorage::kFp32 : MasterStorage::kSplit;
    SCOPED_TRACE(kind);
    make();
    const std::vector<float> before = values();
    pass(), pass(forgets ? 1 : NAN);
    if (forgets)
      engine->discard_gradients();
    else
      EXPECT_TRUE(engine->step().skipped);
    EXPECT_EQ(values(), before);
    // Weights that forward reads are those of the masters again.
    const torch::NoGradGuard no_grad;
    const auto [tokens, targets] = batch_of(kWork, 17, 0, 0);
    const double loss = engine->forward(model, tokens, targets).item<double>();
    make();
    EXPECT_EQ(engine->forward(model, tokens, targets).item<double>(), loss);
  }
}

TEST_F(DraftsOfAnEngine, CountTheTargetsOfAllPasses) {
  options.clip = 0;
  make();
  pass(1, 7), pass(1, 2);
  EXPECT_THAT(step(), ElementsAre(kNumUnits, kNumUnits));
  make();
  pass(1, 0), pass(1, 0);
  EXPECT_THROW(engine->step(), Error);  // no target
}

// The root's weights stay where they are as long as a graph may need them.
TEST_F(DraftsOfAnEngine, AreNoneOfWeightsThatAnotherGraphNeeds) {
  options.micro_batches_per_rank = 1;
  make();
  const auto [tokens, targets] = batch_of(kWork, 17, 0, 0);
  const at::Tensor other = engine->forward(model, tokens, targets);
  pass();
  const at::Tensor again = engine->forward(model, tokens, targets);
  EXPECT_EQ(again.item<double>(), other.item<double>());
  EXPECT_EQ(engine->step().num_drafts, 0);  // the others were read again
}

TEST_F(DraftsOfAnEngine, OfAUnitThatOnlySomeUseCountItsOwnUpdates) {
  options.clip = 0;
  options.unused = Unused::kLeave;
  make();
  pass(), pass();
  EXPECT_THAT(step(), ElementsAre(kNumUnits, kNumUnits));
  options.groups = {{.pattern = "*.ln_1.*", .frozen = true}};  // part of a unit
  make();
  pass(), pass();
  EXPECT_THAT(step(), ElementsAre(kNumUnits, kNumUnits));
}

}  // namespace
}  // namespace zero::testing::step_drafts_test
