// Updates that run beside the next forward: whoever looks sees them finished.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/device/host_device.h"
#include "engine/step/update_queue.h"
#include "tests/engine/small_models.h"
#include "tests/engine/training.h"

namespace zero::testing::step_update_queue_test {
namespace {

// A parameter of eight numbers in the root and in each of two units.
UnitPlan plan_of_two_units(const Options& options) {
  const std::vector<UnitDescription> units = {
      {"", "Model", -1}, {"a", "Block", 0}, {"b", "Block", 0}};
  const std::vector<ParamDescription> params = {
      {"w", {8}, {"w"}, {0}}, {"a.w", {8}, {"a.w"}, {1}}, {"b.w", {8}, {"b.w"}, {2}}};
  return make_unit_plan(units, params, options, 1);
}

class UpdateQueueTest : public ::testing::Test {
 protected:
  ~UpdateQueueTest() override { set_delays({}); }

  std::vector<float> masters(int part) {
    return {shards[part].master, shards[part].master + 8};
  }
  bool is_updated(int part) { return masters(part)[0] != 0; }
  // The first update of each parameter.
  std::vector<int64_t> first() const {
    return std::vector<int64_t>(plan.rules.size(), 1);
  }

  Options options;
  const UnitPlan plan = plan_of_two_units(options);
  const MemoryPlan memory = make_memory_plan(plan, options);
  const std::unique_ptr<Device> device = make_host_device();
  ShardStore shards{plan, memory, *device, /*rank=*/0};
  std::unique_ptr<Collectives> comm = make_lone_collectives();
  ThreadPool threads{1};
  const Workplace at{plan, memory, options, shards, *device, *comm, threads};
};

TEST_F(UpdateQueueTest, UnitsFollowOneAnotherWhileTheCallerGoesOn) {
  UpdateQueue queue(at);
  for (int p = 0; p < 3; ++p) std::fill_n(shards[p].grad, 8, 1.0f);
  set_delays({{"update", 300}});
  queue.begin(first(), 0.5, 1);
  EXPECT_FALSE(queue.ready(0).query());
  queue.ready(0).synchronize();
  EXPECT_TRUE(is_updated(0));
  EXPECT_FALSE(queue.ready(1).query());
  queue.ready(1).synchronize();
  EXPECT_TRUE(is_updated(1));
  EXPECT_FALSE(queue.ready(2).query());
  queue.finish();
  EXPECT_TRUE(is_updated(2));
}

TEST_F(UpdateQueueTest, ASerialOneIsDoneAtOnce) {
  options.overlap_updates = false;
  UpdateQueue queue(at);
  for (int p = 0; p < 3; ++p) std::fill_n(shards[p].grad, 8, 1.0f);
  set_delays({{"update", 20}});
  queue.begin(first(), 0.5, 1);
  for (int p = 0; p < 3; ++p) {
    EXPECT_TRUE(queue.ready(p).query());
    EXPECT_TRUE(is_updated(p));
  }
}

// An engine that ends: its ranks part while the last updates run.
TEST_F(UpdateQueueTest, UpdatesOutliveTheCollectives) {
  UpdateQueue queue(at);
  for (int p = 0; p < 3; ++p) std::fill_n(shards[p].grad, 8, 1.0f);
  set_delays({{"update", 50}});
  queue.begin(first(), 0.5, 1);
  comm.reset();
  queue.finish();
  EXPECT_TRUE(is_updated(2));
}

TEST_F(UpdateQueueTest, AParameterOfNumberZeroIsLeftAlone) {
  UpdateQueue queue(at);
  for (int p = 0; p < 3; ++p) std::fill_n(shards[p].grad, 8, 1.0f);
  std::vector<int64_t> numbers = first();
  numbers[plan.parts[1].params[0]] = 0;
  queue.begin(numbers, 0.5, 1);
  queue.finish();
  EXPECT_TRUE(is_updated(0));
  EXPECT_FALSE(is_updated(1));
  EXPECT_TRUE(is_updated(2));
}

// A unit that somebody reads, and those behind it.
TEST_F(UpdateQueueTest, AnUpdateWaitsForWhoReadsWhatItWrites) {
  UpdateQueue queue(at);
  for (int p = 0; p < 3; ++p) std::fill_n(shards[p].grad, 8, 1.0f);
  std::promise<void> gate;
  const std::unique_ptr<HostStream> reader = device->make_worker("reader");
  reader->enqueue([&] { gate.get_future().wait(); });
  Event read;
  reader->record(read);
  queue.hold_back(1, read);
  queue.begin(first(), 0.5, 1);
  queue.updated(0).synchronize();
  EXPECT_TRUE(is_updated(0));
  EXPECT_FALSE(queue.updated(1).query());
  EXPECT_FALSE(is_updated(1));
  gate.set_value();
  queue.finish();
  EXPECT_TRUE(is_updated(1));
  EXPECT_GT(device->clock().seconds().saves, 0);
}

TEST_F(UpdateQueueTest, AUnitWithoutAnUpdateIsReady) {
  UpdateQueue queue(at);
  EXPECT_TRUE(queue.ready(2).query());
}

// --- in an engine

using Seen = std::map<std::string, std::vector<float>>;

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

struct Reader {
  const char* name;
  void (*look)(Engine& engine, Gpt2Impl& model, Seen& seen);
};

void through_shards(Engine& engine, Gpt2Impl&, Seen& seen) {
  for (const ShardView& view : engine.shards()) {
    seen[view.fqn] = view.master.read_all();
    for (const auto& [name, values] : view.state)
      seen[view.fqn + " " + name] = values.read_all();
  }
}

void through_a_local_shard(Engine& engine, Gpt2Impl&, Seen& seen) {
  const ShardView view = engine.local_shard("transformer.ln_f.weight");
  seen[view.fqn] = view.state.front().values.read_all();
}

void through_a_full_parameter(Engine& engine, Gpt2Impl&, Seen& seen) {
  const std::string fqn = "transformer.h.2.ln_1.weight";
  seen[fqn] = floats(engine.full_parameter(fqn));
}

void through_an_evaluation(Engine& engine, Gpt2Impl& model, Seen& seen) {
  const torch::NoGradGuard no_grad;
  const auto [tokens, targets] = batch_of({}, 257, 7, 0);
  Gpt2Impl* pointer = &model;
  seen["loss"] = floats(engine.forward(pointer, tokens, targets));
}

void after_a_write(Engine& engine, Gpt2Impl& model, Seen& seen) {
  const std::string fqn = "transformer.h.2.ln_1.weight";
  engine.set_full_parameter(fqn, torch::full({64}, 2.0));
  through_an_evaluation(engine, model, seen);
  through_shards(engine, model, seen);
}

void after_masters_changed(Engine& engine, Gpt2Impl& model, Seen& seen) {
  engine.masters_changed();  // makes the 16-bit copies again
  through_an_evaluation(engine, model, seen);
}

class ReadersOfUpdates : public ::testing::TestWithParam<Reader> {
 protected:
  ~ReadersOfUpdates() override { set_delays({}); }

  Seen seen(int ranks, const Options& options) {
    Seen of_first;
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl& model, int) {
      Seen of_rank;
      GetParam().look(engine, model, of_rank);
      if (engine.rank() == 0) of_first = of_rank;
    };
    train(ranks, options, work, hooks);
    return of_first;
  }

  Work work{.steps = 2, .micro_batches = 2};
};

TEST_P(ReadersOfUpdates, SeeThemFinished) {
  for (const int ranks : {1, 2}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      Options options = small_options(work);
      options.dtype = dtype;
      options.overlap_updates = false;
      set_delays({});
      const Seen expected = seen(ranks, options);
      options.overlap_updates = true;
      set_delays({{"update", 30}});
      EXPECT_EQ(seen(ranks, options), expected) << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, ReadersOfUpdates,
    ::testing::Values(Reader{"shards", through_shards},
                      Reader{"local_shard", through_a_local_shard},
                      Reader{"full_parameter", through_a_full_parameter},
                      Reader{"evaluation", through_an_evaluation},
                      Reader{"set_full_parameter", after_a_write},
                      Reader{"masters_changed", after_masters_changed}),
    [](const auto& info) { return std::string(info.param.name); });

class UpdatesInAnEngine : public ::testing::Test {
 protected:
  ~UpdatesInAnEngine() override { set_delays({}); }
};

// Two units, of which a forward may leave out the second.
struct PairImpl : torch::nn::Module {
  PairImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x, bool with_second) {
    const at::Tensor y = first(x);
    return (with_second ? second(y) : y).sum();
  }
  Unit<AffineImpl> first = Unit<AffineImpl>::make(), second = Unit<AffineImpl>::make();
};

// Its gradient becomes zero while its update of the step before may still read it.
TEST_F(UpdatesInAnEngine, AUnitThatTheNextForwardLeavesOutIsUpdatedAll) {
  const auto second_after = [](bool overlaps) {
    Options options;
    options.device = DeviceChoice::kCpu;
    options.overlap_updates = overlaps;
    auto model = std::make_shared<PairImpl>();
    Engine engine(model, options);
    for (const bool with_second : {true, false}) {
      engine.backward(engine.forward(model, torch::ones({2, 3}), with_second), 2);
      engine.step();
    }
    return floats(engine.full_parameter("second.w"));
  };
  const std::vector<float> expected = second_after(false);
  set_delays({{"update", 50}});
  EXPECT_EQ(second_after(true), expected);
}

TEST_F(UpdatesInAnEngine, AnEngineMayGoWhileTheyRun) {
  set_delays({{"update", 50}});
  Options options;
  options.device = DeviceChoice::kCpu;
  auto model = std::make_shared<MlpImpl>();
  Engine engine(model, options);
  engine.backward(engine.forward(model, torch::ones({2, 3})), 2);
  EXPECT_EQ(engine.step().step, 1);
}

}  // namespace
}  // namespace zero::testing::step_update_queue_test
