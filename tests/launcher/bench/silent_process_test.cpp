#include "launcher/bench/silent_process.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "offload/affinity.h"
#include "zero/errors.h"

namespace zero::launcher::silent_process_test {
namespace {

// Counts what other processes have done.
class SharedCount {
 public:
  SharedCount() { EXPECT_EQ(pipe(ends_), 0); }
  ~SharedCount() { close(ends_[0]), close(ends_[1]); }
  void add_one() { EXPECT_EQ(write(ends_[1], "+", 1), 1); }
  ssize_t take_all() {
    char all[100];
    return read(ends_[0], all, sizeof all);
  }

 private:
  int ends_[2];
};

TEST(SilentProcess, DoesItsStepsElsewhereAndOneBeforeThem) {
  int num_steps = 0;
  SharedCount count;
  SilentProcess process([&] {
    return [&] {
      ++num_steps;
      count.add_one();
    };
  });
  const StepsTaken taken = process.run(3, current_affinity());
  EXPECT_GT(taken.peak_bytes, 0);
  EXPECT_EQ(count.take_all(), 1 + 3);
  process.run(1, current_affinity());
  EXPECT_EQ(count.take_all(), 1 + 1);
  EXPECT_EQ(num_steps, 0);
}

TEST(SilentProcess, RunsOnTheCpusThatItIsGiven) {
  const int cpu = current_affinity().back();
  SilentProcess process([cpu] {
    if (current_affinity() != std::vector{cpu}) throw std::runtime_error("elsewhere");
    return [] {};
  });
  EXPECT_NO_THROW(process.run(1, {cpu}));
}

TEST(SilentProcess, OneThatFailsIsNoticed) {
  SilentProcess process([]() -> SilentProcess::Step { throw std::bad_alloc(); });
  EXPECT_THROW(process.run(1, current_affinity()), Error);
  EXPECT_THROW(process.run(1, current_affinity()), Error);
}

}  // namespace
}  // namespace zero::launcher::silent_process_test
