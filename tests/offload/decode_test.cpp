#include "offload/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "offload/stored_values.h"
#include "offload/thread_pool.h"
#include "tests/offload/test_data.h"

namespace zero::decode_test {
namespace {

constexpr DType kNarrow[] = {DType::kBf16, DType::kFp16, DType::kInt8};
constexpr DType kComputed[] = {DType::kFp32, DType::kBf16, DType::kFp16};

std::vector<char> stored_as(DType type, const std::vector<float>& values) {
  const int64_t numel = std::ssize(values);
  std::vector<char> bytes(bytes_of(type, numel));
  if (type == DType::kInt8)
    StoredValues::in_int8(reinterpret_cast<Int8Block*>(bytes.data()), numel)
        .write(0, values);
  else
    narrow(values.data(), numel, type, bytes.data());
  return bytes;
}

// Element i of what lies there, in fp32.
float decoded(const void* from, DType type, int64_t i) {
  if (type == DType::kInt8) {
    const Int8Block& block = static_cast<const Int8Block*>(from)[i / Int8Block::kNumel];
    return decode(block.values[i % Int8Block::kNumel], block.factor);
  }
  const uint16_t half = static_cast<const uint16_t*>(from)[i];
  return type == DType::kFp16 ? fp16_to_float(half) : bf16_to_float(half);
}

// What each element becomes.
std::vector<char> expected(const Decoding& all) {
  std::vector<char> to(all.bytes_to());
  for (int64_t i = 0; i < all.numel; ++i) {
    const float value = decoded(all.from, all.from_type, i);
    narrow(&value, 1, all.to_type, to.data() + i * size_of(all.to_type));
  }
  return to;
}

// Also at the end of the memory that they take then, in which no stretch may write what
// a later one will read.
TEST(Decode, MakesEachElementAnotherTypesWhereverItLies) {
  for (const int num_threads : {1, 3}) {
    ThreadPool threads(num_threads);
    for (const int64_t numel : {0, 128, 256, 384, 512, 1152, 1 << 18, (1 << 18) + 128}) {
      const std::vector<float> values = spread_values(numel, 3, 8.0f);
      for (const DType from : kNarrow) {
        const std::vector<char> stored = stored_as(from, values);
        for (const DType to : kComputed) {
          std::vector<char> apart(numel * size_of(to) + 1, 'x');
          const Decoding all{from, to, stored.data(), apart.data(), numel};
          std::vector<char> wanted = expected(all);
          decode(all, threads);
          wanted.push_back('x');
          ASSERT_EQ(apart, wanted) << name_of(from) << " " << name_of(to) << " " << numel;

          std::vector<char> same(numel * size_of(to) + 1, 'x');
          char* const end = same.data() + numel * size_of(to) - stored.size();
          std::memcpy(end, stored.data(), stored.size());
          decode({from, to, end, same.data(), numel}, threads);
          ASSERT_EQ(same, wanted) << name_of(from) << " " << name_of(to) << " " << numel;
        }
      }
    }
  }
}

TEST(Decode, LeavesFewElementsToBeReadAtOnce) {
  for (const DType from : kNarrow) {
    for (int64_t numel = 128; numel < 1 << 14; numel += 128) {
      std::vector<char> memory(4 * numel);
      const int64_t behind = 4 * numel - bytes_of(from, numel);
      const Decoding all{from, DType::kFp32, memory.data() + behind, memory.data(),
                         numel};
      int64_t next = 0;
      const auto run = [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin, next);
        EXPECT_LE(4 * end, behind + bytes_of(from, begin));
        next = end;
      };
      in_stretches(all, run, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, kMostLeft);
        next = end;
      });
      EXPECT_EQ(next, numel);
    }
  }
}

Int8Block block_of(const std::vector<float>& values) {
  Int8Block block;
  encode(values.data(), std::ssize(values), block);
  return block;
}

std::vector<float> values_of(const Int8Block& block) {
  std::vector<float> values;
  for (const int8_t value : block.values) values.push_back(decode(value, block.factor));
  return values;
}

TEST(Int8Block, IsNoFurtherOffThanHalfItsFactor) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> values = uniform_values(128, seed, 2.0f);
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    const Int8Block block = block_of(values);
    EXPECT_NEAR(block.factor, largest / 127, largest * 1e-6);
    for (int i = 0; i < 128; ++i)
      EXPECT_LE(std::fabs(decode(block.values[i], block.factor) - values[i]),
                block.factor * 0.5001f);
  }
}

// So that a run that is resumed goes on with the same weights.
TEST(Int8Block, StaysTheSameWhenItIsReadAndWrittenAgain) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const float scale = std::ldexp(1.0f, static_cast<int>(seed % 230) - 126);
    const Int8Block once = block_of(spread_values(1 + seed % 128, seed, scale));
    const std::vector<float> values = values_of(once);
    const Int8Block twice = block_of(values);
    ASSERT_EQ(std::memcmp(&once, &twice, sizeof once), 0) << seed;
    for (int i = 0; i < 128; ++i)
      ASSERT_EQ(values[i], double{once.factor} * once.values[i]) << "it is rounded";
  }
}

TEST(Int8Block, OfValuesThatItCannotHold) {
  EXPECT_EQ(values_of(block_of({0, -0.0f, 1e-40f, 1e-38f})), std::vector<float>(128));
  for (const float wrong : {INFINITY, -INFINITY, NAN}) {
    for (const float value : values_of(block_of({1, wrong, 3})))
      EXPECT_TRUE(std::isnan(value));
  }
  const std::vector<float> one = values_of(block_of({5}));
  EXPECT_NEAR(one[0], 5, 1e-4);
  EXPECT_EQ(one[127], 0) << "what is missing of a block";
}

}  // namespace
}  // namespace zero::decode_test
