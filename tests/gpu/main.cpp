// Tests that need a GPU: where there is none, all are skipped, which ctest reports.
#include <gmock/gmock.h>

#include <cstdio>

#include "zero/gpu.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // CMakeLists.txt tells ctest
  ::testing::InitGoogleMock(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests) && zero::num_gpus() == 0) {
    std::puts("skipped: no GPU here");
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
