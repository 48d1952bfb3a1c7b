// What of the shards is pinned changes how much, and no bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/engine/training.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/errors.h"

namespace zero::testing::pin_standin_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PinStandinTest : public ::testing::Test {
 protected:
  PinStandinTest() { options.device = DeviceChoice::kCuda; }

  Trained train_with(Pin pin, int ranks = 1) {
    of_standin<void()>("standin_reset")();
    options.pin = pin;
    return train(ranks, options, work,
                 {.before_step_end = {}, .after_step = [this](Engine&, Gpt2Impl&, int) {
                    pinned_bytes = of_standin<int64_t()>("standin_pinned_bytes")();
                  }});
  }

  // A cure for running out of it would be in the way of other errors.
  std::string error_of_pinning(Pin pin) {
    of_standin<void()>("standin_reset")();
    constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
    of_standin<void(const char*, int)>("standin_fail_next")("cudaHostRegister",
                                                            kOutOfMemory);
    options.pin = pin;
    try {
      train(1, options, work);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kEnvironment);
      EXPECT_EQ(ask_standin("standin_num_left"), 0);
      return error.what();
    }
    return "no error";
  }

  Work work{.steps = 2, .micro_batches = 4};
  Options options = small_options(work);
  int64_t pinned_bytes = 0;  // as the last training ended
};

TEST_F(PinStandinTest, TheSameBits) {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    options.dtype = dtype;
    if (dtype == DType::kFp16) options.loss_scale.init = 1 << 10;
    for (const Offload offload : {Offload::kAll, Offload::kOptimizer}) {
      options.offload = offload;
      for (const int ranks : {1, 2})
        expect_same(train_with(Pin::kTransfers, ranks), train_with(Pin::kAll, ranks));
    }
  }
}

// Of 4 + 8 + 4 + 2 bytes a parameter the gradient's 4 and the copy's 2, but for what
// their first page begins with; landings are pinned in both ways.
TEST_F(PinStandinTest, TransfersPinGradientsAndTheCopy) {
  options.dtype = DType::kBf16;
  train_with(Pin::kAll);
  const int64_t all = pinned_bytes;
  train_with(Pin::kTransfers);
  int64_t before = 0;
  const auto model = std::make_shared<Gpt2Impl>(small_gpt2());
  for (const MemoryEntry& entry : plan(*model, options, 1)) {
    if (entry.tier != "host" || entry.owner == "accumulation" ||
        entry.owner == "gradient landing")
      continue;
    if (entry.owner != "gradients" && entry.owner != "bf16 copy") before += entry.bytes;
  }
  EXPECT_EQ(all - pinned_bytes, before / sysconf(_SC_PAGESIZE) * sysconf(_SC_PAGESIZE));
}

// However many passes there are, and whatever comes over once a step.
TEST_F(PinStandinTest, WhatIsCopiedWhileUnitsRunIsPinned) {
  work.steps = 1;
  const auto num_unpinned = [this](Pin pin, int micro_batches) {
    work.micro_batches = options.micro_batches_per_rank = micro_batches;
    train_with(pin);
    return ask_standin("standin_num_unpinned_copies");
  };
  const auto expect_pinned = [&] {
    for (const Offload offload : {Offload::kAll, Offload::kOptimizer}) {
      options.offload = offload;
      const int least = num_unpinned(Pin::kAll, 2);
      EXPECT_EQ(num_unpinned(Pin::kTransfers, 2), least);
      EXPECT_EQ(num_unpinned(Pin::kTransfers, 12), least);
    }
  };
  expect_pinned();
  options.dtype = DType::kBf16;
  expect_pinned();
  options.master = MasterStorage::kSplit;
  expect_pinned();
}

TEST_F(PinStandinTest, TheCureForNotBeingLetToPinAll) {
  EXPECT_THAT(error_of_pinning(Pin::kAll), HasSubstr("try:   --pin transfers"));
  EXPECT_THAT(error_of_pinning(Pin::kTransfers), Not(HasSubstr("--pin transfers")));
}

TEST_F(PinStandinTest, OnTheHostNothingIsPinned) {
  options.device = DeviceChoice::kCpu;
  options.pin = Pin::kTransfers;
  try {
    train(1, options, work);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("pin transfers is for a GPU"));
  }
}

}  // namespace
}  // namespace zero::testing::pin_standin_test
