#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "engine/device/host_device.h"
#include "engine/device/stream_clock.h"
#include "engine/watch/trace.h"

namespace zero::device_stream_clock_test {
namespace {

constexpr auto kShort = std::chrono::milliseconds(20);
constexpr double kShortSeconds = 0.02;

class StreamClockTest : public ::testing::Test {
 protected:
  // Works on the stream for a short time.
  void work(HostStream& stream, Work work) {
    const StreamClock::Span span(clock_, stream, work, "work");
    stream.enqueue([] { std::this_thread::sleep_for(kShort); });
  }

  StreamClock clock_;
  std::unique_ptr<HostStream> stream_ = make_worker_stream("stream", {});
};

TEST_F(StreamClockTest, CountsWhatIsOverByNow) {
  work(*stream_, Work::kWeights);
  EXPECT_EQ(clock_.seconds().weights, 0);  // without waiting for it
  stream_->synchronize();
  const double once = clock_.seconds().weights;
  EXPECT_GE(once, kShortSeconds);
  EXPECT_EQ(clock_.seconds().weights, once);  // not again
  work(*stream_, Work::kWeights);
  stream_->synchronize();
  EXPECT_GE(clock_.seconds().weights, once + kShortSeconds);
}

TEST_F(StreamClockTest, EachKindOfWorkHasASum) {
  work(*stream_, Work::kWeights);
  work(*stream_, Work::kGradients);
  work(*stream_, Work::kGradients);
  work(*stream_, Work::kOptimizer);
  work(*stream_, Work::kOptimizer);
  work(*stream_, Work::kOptimizer);
  for (int i = 0; i < 4; ++i) work(*stream_, Work::kSaves);
  work(*stream_, Work::kPart);
  stream_->synchronize();
  const StreamSeconds seconds = clock_.seconds();
  EXPECT_GE(seconds.saves, 4 * kShortSeconds);
  EXPECT_GE(seconds.weights, kShortSeconds);
  EXPECT_GE(seconds.gradients, 2 * kShortSeconds);
  EXPECT_GE(seconds.optimizer, 3 * kShortSeconds);
  EXPECT_EQ(seconds.compute, 0);
  EXPECT_EQ(seconds.waiting, 0);
}

// What streams wait for before the span is none of it, and what is waited for in it is.
TEST_F(StreamClockTest, ComputingIsWhatRunsAndDoesNotWait) {
  const auto compute = make_inline_stream("compute");
  Event done;
  {
    const StreamClock::Span running(clock_, *compute, Work::kRunning, "forward");
    work(*stream_, Work::kWeights);
    stream_->record(done);
    const StreamClock::Span waiting(clock_, *compute, Work::kWaiting, "wait");
    compute->wait(done);
  }
  const StreamSeconds seconds = clock_.seconds();
  EXPECT_GE(seconds.waiting, kShortSeconds * 0.9);
  EXPECT_GE(seconds.compute, 0);
  EXPECT_LT(seconds.compute, seconds.waiting);
}

// A stream that is everywhere at once, and counts the stamps that somebody keeps.
class StampCounter : public Stream {
 public:
  const std::string& name() const override { return name_; }
  void copy(void*, const void*, int64_t) override {}
  void set_bytes(void*, int, int64_t) override {}
  void record(Event&) override {}
  void wait(const Event&) override {}
  void synchronize() override {}
  std::shared_ptr<const Stamp> stamp() override { return std::make_shared<Kept>(*this); }

  int num_made = 0, num_kept = 0;

 private:
  struct Kept : Stamp {
    explicit Kept(StampCounter& counter) : of(counter) { ++of.num_made, ++of.num_kept; }
    ~Kept() override { --of.num_kept; }
    std::optional<int64_t> ns() const override { return Trace::now_ns(); }
    StampCounter& of;
  };
  const std::string name_ = "everywhere";
};

TEST_F(StreamClockTest, NobodyHasToAsk) {
  StampCounter stream;
  for (int i = 0; i < 10'000; ++i) {
    const StreamClock::Span span(clock_, stream, Work::kWeights, "work");
  }
  EXPECT_LT(stream.num_kept, 2000);
  clock_.seconds();
  EXPECT_EQ(stream.num_kept, 0);
}

TEST_F(StreamClockTest, APartIsStampedForATraceAlone) {
  StampCounter stream;
  { const StreamClock::Span span(clock_, stream, Work::kPart, "forward", "blocks.3"); }
  EXPECT_EQ(stream.num_made, 0);
  Trace::start();
  { const StreamClock::Span span(clock_, stream, Work::kPart, "forward", "blocks.3"); }
  EXPECT_EQ(stream.num_made, 2);
  clock_.seconds();  // looks through the stamps
  const auto lanes = Trace::finish();
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].thread, "GPU everywhere");
}

TEST(StreamSeconds, OfAStepAreTheDifferenceOfTwoCounts) {
  const StreamSeconds step = StreamSeconds{9, 8, 7, 6, 5} - StreamSeconds{1, 2, 3, 4, 6};
  EXPECT_EQ(step.compute, 8);
  EXPECT_EQ(step.waiting, 6);
  EXPECT_EQ(step.weights, 4);
  EXPECT_EQ(step.gradients, 2);
  EXPECT_EQ(step.optimizer, -1);
}

}  // namespace
}  // namespace zero::device_stream_clock_test
