#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plan/memory_plan.h"
#include "engine/plan/pinned_ranges.h"
#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero::plan_pinned_ranges_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kPage = 4096;

// Shards of 1024 elements: a root and two blocks, of which one has a norm in fp32. A
// master is a page, a copy in 16 bits half of one.
class PinnedRanges : public ::testing::Test {
 protected:
  static ParamDescription param(const std::string& fqn, int unit) {
    return {fqn, {1024}, {fqn}, {unit}, true};
  }
  std::vector<ByteRange> pinned(Pin pin, int64_t page_bytes = kPage) {
    const UnitPlan plan = make_unit_plan(units, params, options, 1);
    memory = make_memory_plan(plan, options, UnitMemory::kGpu);
    return pinned_ranges(plan, memory, pin, page_bytes);
  }

  std::vector<UnitDescription> units{
      {"", "Model", -1}, {"blocks.0", "Block", 0}, {"blocks.1", "Block", 0}};
  std::vector<ParamDescription> params{param("wte", 0), param("blocks.0.w", 1),
                                       param("blocks.1.w", 2)};
  Options options;
  MemoryPlan memory;
};

TEST_F(PinnedRanges, AllIsOneRange) {
  // Masters, two moments, gradients.
  EXPECT_THAT(pinned(Pin::kAll), ElementsAre(ByteRange{0, 12 * kPage}));
  options.dtype = DType::kBf16;
  EXPECT_THAT(pinned(Pin::kAll), ElementsAre(ByteRange{0, 27 * kPage / 2}))
      << "the last page ends with the shards";
}

// Gradients come behind masters and moments.
TEST_F(PinnedRanges, InFp32TheMastersAreSent) {
  EXPECT_THAT(pinned(Pin::kTransfers),
              ElementsAre(ByteRange{0, 3 * kPage}, ByteRange{9 * kPage, 12 * kPage}));
}

TEST_F(PinnedRanges, In16BitsTheCopyIs) {
  options.dtype = DType::kBf16;
  EXPECT_THAT(pinned(Pin::kTransfers), ElementsAre(ByteRange{9 * kPage, 27 * kPage / 2}));
  options.master = MasterStorage::kSplit;  // the copy is the masters' high half
  EXPECT_THAT(pinned(Pin::kTransfers),
              ElementsAre(ByteRange{15 * kPage / 2 / kPage * kPage, 12 * kPage}));
}

TEST_F(PinnedRanges, WhatStaysInFp32IsSentAsItIs) {
  options.dtype = DType::kBf16;
  params.push_back(param("blocks.0.norm", 1));
  params.back().stays_fp32 = true;
  // Four masters, eight moments, four gradients: the norm's master is the third one.
  EXPECT_THAT(pinned(Pin::kTransfers),
              ElementsAre(ByteRange{2 * kPage, 3 * kPage},
                          ByteRange{12 * kPage, 35 * kPage / 2}));
}

TEST_F(PinnedRanges, FrozenMastersAreSentToo) {
  options.groups = {{"blocks.1.*", 1, {}, true}};
  // Behind two masters, four moments and two gradients.
  EXPECT_THAT(pinned(Pin::kTransfers),
              ElementsAre(ByteRange{0, 2 * kPage}, ByteRange{6 * kPage, 9 * kPage}));
}

TEST_F(PinnedRanges, WhatLiesOnTheGpuIsNotCounted) {
  options.device_state_fraction = 0.7;
  EXPECT_THAT(pinned(Pin::kTransfers),
              ElementsAre(ByteRange{0, kPage}, ByteRange{3 * kPage, 4 * kPage}));
  EXPECT_THAT(pinned(Pin::kAll), ElementsAre(ByteRange{0, 4 * kPage}));
  options.offload = Offload::kNone;
  options.device_state_fraction = 0;
  EXPECT_THAT(pinned(Pin::kAll), IsEmpty());
}

TEST_F(PinnedRanges, NoTwoShareAPage) {
  options.groups = {{"blocks.1.*", 1, {}, true}};
  // Bytes 0 to 8192 and 24576 to 36864.
  EXPECT_THAT(pinned(Pin::kTransfers, 3 * kPage),
              ElementsAre(ByteRange{0, 3 * kPage}, ByteRange{6 * kPage, 9 * kPage}));
  EXPECT_THAT(pinned(Pin::kTransfers, 16 * kPage), ElementsAre(ByteRange{0, 9 * kPage}));
}

}  // namespace
}  // namespace zero::plan_pinned_ranges_test
