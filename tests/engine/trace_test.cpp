#include "engine/watch/trace.h"

#include <gmock/gmock.h>
#include <pthread.h>

#include <algorithm>
#include <thread>

#include "engine/device/host_device.h"
#include "engine/watch/activity.h"

namespace zero::trace_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names(const std::vector<Trace::Event>& events) {
  std::vector<std::string> names;
  for (const Trace::Event& event : events) names.push_back(event.name);
  return names;
}

const Trace::Lane* find_lane(const std::vector<Trace::Lane>& lanes,
                             const std::string& thread) {
  const auto found = std::ranges::find(lanes, thread, &Trace::Lane::thread);
  return found == lanes.end() ? nullptr : &*found;
}

TEST(Trace, SpansLieInsideOneAnother) {
  Trace::start();
  {
    const Trace::Span outer("forward");
    { const Trace::Span inner("forward", "blocks.3"); }
  }
  const std::vector<Trace::Lane> lanes = Trace::finish();
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].thread, "training");
  ASSERT_THAT(names(lanes[0].events), ElementsAre("forward blocks.3", "forward"));
  const Trace::Event &inner = lanes[0].events[0], &outer = lanes[0].events[1];
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
}

TEST(Trace, NothingIsRecordedUnlessAsked) {
  EXPECT_FALSE(Trace::is_on());
  { const Trace::Span span("before"); }
  Trace::start();
  EXPECT_TRUE(Trace::is_on());
  EXPECT_THAT(Trace::finish(), IsEmpty());
  EXPECT_FALSE(Trace::is_on());
  { const Trace::Span span("after"); }
  Trace::start();
  EXPECT_THAT(Trace::finish(), IsEmpty());
}

TEST(Trace, WhatBeganOrEndedOutsideIsLeftOut) {
  auto before = std::make_unique<Trace::Span>("begun before");
  Trace::start();
  auto earlier = std::make_unique<Trace::Span>("begun in an earlier recording");
  Trace::start();
  before.reset();
  earlier.reset();
  auto after = std::make_unique<Trace::Span>("not yet done");
  EXPECT_THAT(Trace::finish(), IsEmpty());
  after.reset();
  Trace::start();
  EXPECT_THAT(Trace::finish(), IsEmpty());
}

TEST(Trace, StretchesOfTheActivityAreSpans) {
  Trace::start();
  {
    const Activity::Stretch unit("blocks.3", "backward");
    EXPECT_EQ(Activity::here().state().where, "blocks.3");
    const Activity::Stretch call("all_gather 'blocks.4'", {}, /*waits=*/true);
  }
  EXPECT_THAT(names(Trace::finish().at(0).events),
              ElementsAre("all_gather 'blocks.4'", "backward blocks.3"));
}

TEST(Trace, AStreamHasALaneAndWhoWaitsForItSaysSo) {
  const std::unique_ptr<Device> device = make_host_device();
  const std::unique_ptr<Stream> stream = device->make_stream("copies");
  Event done;
  Trace::start();
  as_host_stream(*stream).enqueue([] {
    const Trace::Span span("copy");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  stream->record(done);
  device->compute_stream().wait(done);
  device->compute_stream().wait(done);  // there already: no wait
  const std::vector<Trace::Lane> lanes = Trace::finish();
  ASSERT_TRUE(find_lane(lanes, "copies"));
  EXPECT_THAT(names(find_lane(lanes, "copies")->events), ElementsAre("copy"));
  ASSERT_TRUE(find_lane(lanes, "training"));
  EXPECT_THAT(names(find_lane(lanes, "training")->events),
              ElementsAre("wait for copies"));
}

TEST(Trace, WhatNoThreadDoesHasALaneOfItsOwn) {
  Trace::add("GPU compute", {"before", 1, 2});
  Trace::start();
  const int64_t now = Trace::now_ns();
  Trace::add("GPU compute", {"forward", now, now + 2});
  Trace::add("GPU communication", {"gather", now, now + 1});
  Trace::add("GPU compute", {"backward", now + 3, now + 4});
  Trace::add("GPU compute", {"of an earlier recording", 1, 2});
  const std::vector<Trace::Lane> lanes = Trace::finish();
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].thread, "GPU compute");
  EXPECT_THAT(names(lanes[0].events), ElementsAre("forward", "backward"));
  EXPECT_EQ(lanes[0].events[0].end_ns, now + 2);
  EXPECT_THAT(names(lanes[1].events), ElementsAre("gather"));
  Trace::add("GPU compute", {"late", Trace::now_ns(), Trace::now_ns()});
  EXPECT_THAT(Trace::finish(), IsEmpty());
}

std::vector<std::string> heard;

TEST(Trace, AListenerHearsOfEachSpanWhetherItIsRecordedOrNot) {
  constexpr Trace::Listener listener{[](const char* name) { heard.emplace_back(name); },
                                     [] { heard.emplace_back("end"); }};
  const Activity::Stretch unheard("earlier");
  Trace::set_listener(&listener);
  {
    const Activity::Stretch outer("blocks.3", "forward");
    const Trace::Span inner("sum", "blocks.4");
  }
  auto begun = std::make_unique<Trace::Span>("begun");
  Trace::set_listener(nullptr);
  begun.reset();  // balanced all the same
  { const Trace::Span later("later"); }
  EXPECT_THAT(heard, ElementsAre("forward blocks.3", "sum blocks.4", "end", "end",
                                 "begun", "end"));
}

TEST(Trace, LanesOutliveTheirThreads) {
  Trace::start();
  std::thread([] {
    pthread_setname_np(pthread_self(), "short");
    const Trace::Span span("work");
  }).join();
  const std::vector<Trace::Lane> lanes = Trace::finish();
  ASSERT_TRUE(find_lane(lanes, "short"));
  EXPECT_THAT(names(find_lane(lanes, "short")->events), ElementsAre("work"));
}

}  // namespace
}  // namespace zero::trace_test
