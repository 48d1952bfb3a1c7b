// The events between the stream that computes gradients and the one that reduces them.
//
// torch lays gradients out in the calling thread, so a compute stream that runs behind
// its caller shows here only when it may go on.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "engine/device/host_device.h"
#include "engine/step/torch/gradient_shards.h"
#include "zero/ranks.h"

namespace zero::testing::step_gradient_shards_test {
namespace {

using ::testing::Each;

constexpr int64_t kNumel = 64;

// Long enough for whoever does not wait.
void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

class GradientShardsTest : public ::testing::Test {
 protected:
  GradientShardsTest() {
    for (int part = 0; part < 4; ++part) params_.push_back(torch::zeros({kNumel}));
  }
  ~GradientShardsTest() override { open_.set_value(); }

  static Options streamed() {
    Options options;
    options.stream_always = true;
    return options;
  }
  UnitPlan plan_of_units() const {
    std::vector<UnitDescription> units = {{"", "Model", -1}};
    std::vector<ParamDescription> params = {{"w", {kNumel}, {"w"}, {0}}};
    for (int unit = 1; unit < 4; ++unit) {
      const std::string name = "u" + std::to_string(unit);
      units.push_back({name, "Block", 0});
      params.push_back({name + ".w", {kNumel}, {name + ".w"}, {unit}});
    }
    return make_unit_plan(units, params, options_, 1);
  }

  void reduce(int part) {
    params_[part].mutable_grad() = torch::full({kNumel}, static_cast<float>(part));
    gradients_.collect(part, {params_[part]});
    gradients_.reduce(part);
  }
  std::vector<float> gradient(int part) {
    return {shards_[part].grad, shards_[part].grad + kNumel};
  }
  // A stream stops here until open().
  void stop(Stream& stream) {
    as_host_stream(stream).enqueue([opened = opened_] { opened.wait(); });
  }
  void open() {
    open_.set_value();
    open_ = {};
  }
  // Set when a stream gets here.
  void mark(Stream& stream) {
    as_host_stream(stream).enqueue([this] { is_marked_ = true; });
  }
  Stream& compute() { return device_->compute_stream(); }

  const Options options_ = streamed();
  const UnitPlan plan_ = plan_of_units();
  const MemoryPlan memory_ = make_memory_plan(plan_, options_);
  const std::unique_ptr<Device> device_ = make_host_device({.async_compute = true});
  ShardStore shards_{plan_, memory_, *device_, /*rank=*/0};
  const std::unique_ptr<Collectives> comm_ = make_one_rank()->make_collectives();
  ThreadPool threads_{1};
  std::vector<at::Tensor> params_;
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
  std::atomic<bool> is_marked_ = false;
  std::unique_ptr<Stream> stream_ = device_->make_stream("communication");
  GradientShards gradients_{
      {plan_, memory_, options_, shards_, *device_, *comm_, threads_}, *stream_};
};

TEST_F(GradientShardsTest, ASlotIsNotFilledWhileItsReductionReadsIt) {
  const int num_slots = memory_.gradient_ring.classes[0].num_slots;
  ASSERT_LT(num_slots, 4);
  stop(*stream_);
  for (int part = 0; part < num_slots; ++part) reduce(part);
  mark(compute());
  compute().synchronize();
  EXPECT_TRUE(is_marked_) << "there is a slot for each";
  is_marked_ = false;
  reduce(num_slots);
  mark(compute());
  pause();
  EXPECT_FALSE(is_marked_);
  open();
  compute().synchronize();
  EXPECT_TRUE(is_marked_);
  stream_->synchronize();
}

TEST_F(GradientShardsTest, AReductionWaitsForWhatComputesItsGradient) {
  stop(compute());
  reduce(3);
  mark(*stream_);
  pause();
  EXPECT_FALSE(is_marked_);
  open();
  gradients_.finish();
  EXPECT_TRUE(is_marked_);
  EXPECT_THAT(gradient(3), Each(3));
}

}  // namespace
}  // namespace zero::testing::step_gradient_shards_test
