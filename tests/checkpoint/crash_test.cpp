#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/find.h"
#include "checkpoint/tidy.h"
#include "checkpoint/verify.h"
#include "support.h"

// Whatever happens in the middle of a save, there is the old checkpoint or the new one.
namespace zero::checkpoint::testing::crash_test {
namespace {

using ::testing::HasSubstr;

class CrashTest : public CheckpointTest {
 protected:
  // Save `fresh` in a process of its own that dies at the k-th call; true: it came
  // through.
  bool save_and_die_at(int call, const SaveOptions& options, bool can_exchange = true) {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyIo io;
      io.fail_at = call;
      io.is_killing = true;
      io.can_exchange = can_exchange;
      save(fresh, options, io);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
  }

  // What a new process finds: 1 the old checkpoint, 2 the new one, 0 anything else.
  int found() {
    std::vector<std::string> passed_over;
    const auto newest = newest_complete(run, &passed_over);
    EXPECT_TRUE(passed_over.empty()) << passed_over.front();
    if (newest) {
      EXPECT_TRUE(verify(newest->path).damages.empty());
    }
    if (newest && holds(newest->path, old)) return 1;
    if (newest && holds(newest->path, fresh)) return 2;
    return 0;
  }

  void save_old() {
    std::filesystem::remove_all(run);
    save(old, {.step = 1});
  }

  const TestModel old = small_model(1), fresh = small_model(2);
};

TEST_F(CrashTest, ANewStepIsThereWholeOrNotAtAll) {
  int num_old = 0, num_new = 0;
  bool is_through = false;
  for (int call = 0; !is_through; ++call) {
    save_old();
    is_through = save_and_die_at(call, {.step = 2});
    const int which = found();
    ASSERT_NE(which, 0) << "killed at call " << call;
    ++(which == 1 ? num_old : num_new);
    tidy(OpenRun(run));  // the run goes on
    save(fresh, {.step = 3});
    purge(OpenRun(run), {.keep = 1}, 3);
    ASSERT_THAT(files_of(run), ::testing::ElementsAre("latest", "step_000000000003"));
  }
  EXPECT_GT(num_old, 20);
  EXPECT_GT(num_new, 3);
}

TEST_F(CrashTest, AReplacedStepIsTheOldOneOrTheNewOne) {
  for (const bool can_exchange : {true, false}) {
    int num_old = 0, num_new = 0;
    bool is_through = false;
    for (int call = 0; !is_through; ++call) {
      save_old();
      is_through = save_and_die_at(call, {.step = 1, .existing = Existing::kReplace},
                                   can_exchange);
      if (!can_exchange) tidy(OpenRun(run));  // as the next run does
      const int which = found();
      ASSERT_NE(which, 0) << "killed at call " << call;
      ++(which == 1 ? num_old : num_new);
      tidy(OpenRun(run));
      ASSERT_THAT(leftovers_of(run), ::testing::IsEmpty());
      ASSERT_EQ(found(), which);
    }
    EXPECT_GT(num_old, 20);
    EXPECT_GT(num_new, 3);
  }
}

TEST_F(CrashTest, TwoCrashesInARowLeaveTheOldOne) {
  save_old();
  EXPECT_FALSE(save_and_die_at(10, {.step = 2}));
  EXPECT_FALSE(save_and_die_at(15, {.step = 2}));
  EXPECT_EQ(found(), 1);
  save(fresh, {.step = 2});
  EXPECT_EQ(found(), 2);
}

// A disk that is full from some call on, or fails once.
TEST_F(CrashTest, AFailureIsReportedAndCleanedUp) {
  for (const int error : {ENOSPC, EIO}) {
    for (const bool fail_after : {true, false}) {
      for (int call = 0;; ++call) {
        save_old();
        FaultyIo io;
        io.fail_at = call;
        io.error = error;
        io.fail_after = fail_after;
        std::string text;
        try {
          save(fresh, {.step = 2}, io);
        } catch (const CheckpointError& failure) {
          text = failure.what();
          EXPECT_THAT(text, HasSubstr(run));
          EXPECT_THAT(text, HasSubstr(std::generic_category().message(error)));
        }
        if (io.num_calls <= call) break;
        const int which = found();
        ASSERT_NE(which, 0) << call;
        if (which == 1) {
          EXPECT_FALSE(text.empty()) << "a failed save went unnoticed at call " << call;
          EXPECT_TRUE(leftovers_of(run).empty()) << call;
        }
      }
    }
  }
}

TEST_F(CrashTest, ShortAndInterruptedCallsAreNoFailure) {
  save_old();
  FaultyIo io;
  io.short_writes = 1000;
  io.interrupt_every = 3;
  save(fresh, {.step = 2}, io);
  EXPECT_EQ(found(), 2);
}

}  // namespace
}  // namespace zero::checkpoint::testing::crash_test
