#include <gtest/gtest.h>

#include <set>

#include "offload/random.h"

namespace zero::philox_test {
namespace {

TEST(Philox, GivesThePublishedVectors) {
  // Random123's known answers for philox4x32-10.
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedsNamesAndNumbersHaveKeysOfTheirOwn) {
  std::set<uint64_t> keys;
  for (const uint64_t seed : {0, 1, 2}) {
    for (const char* name : {"", "a.weight", "b.weight"})
      keys.insert(hash_key(seed, name));
    for (const uint64_t number : {0, 1, 2}) keys.insert(hash_key(seed, number));
  }
  EXPECT_EQ(keys.size(), 18u);
}

}  // namespace
}  // namespace zero::philox_test
