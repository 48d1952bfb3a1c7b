#include "tests/standin/schedule.h"

#include <gmock/gmock.h>

namespace zero::testing::schedule_test {
namespace {

using standin::Access;
using standin::Call;
using Kind = Call::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::byte memory[64];

// The names of entries, in order.
std::vector<std::string> names(const Schedule& schedule) {
  std::vector<std::string> all;
  for (const Entry& entry : schedule.entries)
    all.push_back(entry.lane + ": " + entry.what);
  return all;
}

// A recording that is written down: each call at the time of its number.
class ScheduleTest : public ::testing::Test {
 protected:
  size_t add(Kind kind, const std::string& lane, std::vector<Access> accesses = {},
             std::vector<size_t> after = {}, const std::string& thread = "training") {
    const auto time = static_cast<int64_t>(recording.calls.size());
    recording.calls.push_back(
        {kind, lane, std::move(accesses), std::move(after), thread, time});
    return recording.calls.size() - 1;
  }
  size_t work(const std::string& lane) { return add(Kind::kWork, lane, {{memory, 8}}); }
  void wait(const std::string& lane, size_t record) {
    add(Kind::kWait, lane, {}, {record});
  }
  // From call to call, of this thread.
  void span(const std::string& name, int64_t begin, int64_t end,
            const std::string& thread = "training") {
    trace.push_back({thread, {{name, begin, end}}});
  }
  void mark() { recording.marks.push_back(recording.calls.size()); }
  Schedule schedule() const { return make_schedule(recording, trace); }

  standin::Recording recording;
  std::vector<Trace::Lane> trace;
};

TEST_F(ScheduleTest, WorkOfOneSpanIsOneEntry) {
  work("compute"), work("compute"), work("compute");
  span("forward", 0, 1), span("backward", 2, 2);
  EXPECT_THAT(names(schedule()), ElementsAre("compute: forward", "compute: backward"));
}

TEST_F(ScheduleTest, TheInnermostSpanGivesTheName) {
  work("compute"), work("compute");
  span("forward", 0, 9), span("forward blocks.0", 1, 1);
  EXPECT_THAT(names(schedule()),
              ElementsAre("compute: forward", "compute: forward blocks.0"));
}

// Autograd's has none where it is not in a unit.
TEST_F(ScheduleTest, TheThreadsOwnSpansComeFirst) {
  add(Kind::kWork, "compute", {{memory, 8}}, {}, "autograd");
  add(Kind::kWork, "compute", {{memory, 8}}, {}, "autograd");
  span("backward", 0, 9), span("recompute", 1, 1, "autograd");
  EXPECT_THAT(names(schedule()), ElementsAre("compute: backward", "compute: recompute"));
}

TEST_F(ScheduleTest, OtherStreamsCopyAndWorkersTellWhatTheyDo) {
  work("communication");
  add(Kind::kWork, "updates", {{memory, 8}}, {}, "updates");
  span("forward", 0, 9), span("update blocks.0", 1, 1, "updates");
  EXPECT_THAT(names(schedule()),
              ElementsAre("communication: copy", "updates: update blocks.0"));
}

TEST_F(ScheduleTest, AnEntryIsBehindTheLastOneBeforeWhatWasRecorded) {
  work("a");
  const size_t point = add(Kind::kRecord, "a");
  work("a");
  wait("b", point), work("b");
  const Schedule made = schedule();
  ASSERT_THAT(made.entries, SizeIs(3));  // what came after the record is another entry
  EXPECT_THAT(made.entries[2].after, ElementsAre(0));
}

TEST_F(ScheduleTest, AWaitBeginsANewEntry) {
  const size_t nothing = add(Kind::kRecord, "a");
  work("a");
  const size_t point = add(Kind::kRecord, "a");
  work("b"), wait("b", nothing), work("b"), wait("b", point), work("b");
  const Schedule made = schedule();
  ASSERT_THAT(made.entries, SizeIs(3));
  EXPECT_THAT(made.entries[1].after, IsEmpty());
  EXPECT_THAT(made.entries[2].after, ElementsAre(0));
}

// Else whoever waits for that lane would not wait for what it waits for.
TEST_F(ScheduleTest, AWaitThatIsRecordedIsAnEntry) {
  work("a");
  const size_t of_a = add(Kind::kRecord, "a");
  wait("b", of_a);
  const size_t of_b = add(Kind::kRecord, "b");
  wait("c", of_b), work("c");
  const Schedule made = schedule();
  EXPECT_THAT(names(made), ElementsAre("a: copy", "b: wait", "c: copy"));
  EXPECT_THAT(made.entries[2].after, ElementsAre(1));
}

// What is queued before must not seem to be behind it.
TEST_F(ScheduleTest, AWaitOfTheTrainingThreadEndsEntries) {
  work("a"), work("b");
  wait("training", add(Kind::kRecord, "a"));
  work("b");
  EXPECT_THAT(names(schedule()),
              ElementsAre("a: copy", "b: copy", "training: wait", "b: copy"));
}

TEST_F(ScheduleTest, TheTrainingThreadsWaitsInOneGoAreOne) {
  work("a"), work("b");
  const size_t of_a = add(Kind::kRecord, "a"), of_b = add(Kind::kRecord, "b");
  wait("training", of_a), wait("training", of_b), wait("training", of_a);
  const Schedule made = schedule();
  ASSERT_THAT(made.entries, SizeIs(3));
  EXPECT_THAT(made.entries[2].after, ElementsAre(0, 1));
}

TEST_F(ScheduleTest, TheTextNumbersAStepsEntries) {
  recording.memory = {{memory, 8, false, "weights", memory},
                      {memory + 16, 8, false, "slot", memory + 16},
                      {memory + 24, 8, false, "slot", memory + 24},
                      {memory + 32, 8, false, "blocks.0 masters", memory + 32}};
  size_t updated = add(Kind::kRecord, "updates");
  for (int step = 0; step < 3; ++step) {
    const int slot = 16 + step % 2 * 8;
    mark();
    wait("in", updated);
    add(Kind::kWork, "in", {{memory, 8}, {memory + slot, 8, true}});
    wait("compute", add(Kind::kRecord, "in"));
    add(Kind::kWork, "compute", {{memory + slot, 4}, {memory + 60, 4, true}});
    wait("updates", add(Kind::kRecord, "compute"));
    const auto now = static_cast<int64_t>(recording.calls.size());
    span("update blocks.0", now, now, "updates");
    add(Kind::kWork, "updates", {{memory, 8}, {memory + 32, 8, true}}, {}, "updates");
    updated = add(Kind::kRecord, "updates");
  }
  mark();
  const std::string text =
      "1  in              copy                after 3'        weights -> slot 0\n"
      "2  compute         between steps       after 1         reads slot 0\n"
      "3  updates         update blocks.0     after 2         reads weights; writes "
      "masters\n";
  EXPECT_EQ(text_of(schedule(), 1), text);
  EXPECT_EQ(text_of(schedule(), 2), text);
}

}  // namespace
}  // namespace zero::testing::schedule_test
