#include "launcher/look/values.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace zero::launcher::values_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
const char* bytes_of(const std::vector<T>& values) {
  return reinterpret_cast<const char*>(values.data());
}

template <class T>
Summary summary_of(DType dtype, const std::vector<T>& values) {
  Summary summary;
  summary.add(dtype, bytes_of(values), std::ssize(values));
  return summary;
}

template <class T>
Distance distance_of(DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  Distance distance;
  distance.add(dtype, bytes_of(a), dtype, bytes_of(b), std::ssize(a));
  return distance;
}

TEST(Summary, OfAFewValues) {
  const Summary summary = summary_of<float>(DType::kFp32, {3, -4, 0, 0});
  EXPECT_EQ(summary.norm(), 5);
  EXPECT_EQ(summary.mean(), -0.25);
  EXPECT_EQ(summary.min, -4);
  EXPECT_EQ(summary.max, 3);
  EXPECT_EQ(summary.largest(), 4);
}

// More than is worked on at once, and no multiple of it; pieces as they come.
TEST(Summary, OfManyValuesInPieces) {
  std::vector<float> values(10007);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i == 7777 ? 9 : static_cast<float>(std::sin(static_cast<double>(i)));
    sum += values[i];
    squares += static_cast<double>(values[i]) * values[i];
  }
  Summary summary;
  for (const auto& [begin, end] : {std::pair{0, 5000}, {5000, 5003}, {5003, 10007}})
    summary.add(DType::kFp32, bytes_of(values) + 4 * begin, end - begin);
  EXPECT_EQ(summary.num_finite, 10007);
  EXPECT_NEAR(summary.norm(), std::sqrt(squares), 1e-12);
  EXPECT_NEAR(summary.mean(), sum / 10007, 1e-15);
  EXPECT_EQ(summary.max, 9);
}

// In fp32 the small ones would be lost beside the large one.
TEST(Summary, SumsAreFp64) {
  std::vector<float> values(1 << 16, 1);
  values[0] = 1 << 30;
  EXPECT_EQ(summary_of(DType::kFp32, values).sum, (1 << 30) + 65535.0);
}

TEST(Summary, WhatIsNotFiniteIsCountedAlone) {
  const Summary summary =
      summary_of<float>(DType::kFp32, {1, kNan, -kInf, 2, kInf, kNan, kNan});
  EXPECT_EQ(summary.num_nan, 3);
  EXPECT_EQ(summary.num_inf, 2);
  EXPECT_EQ(summary.num_finite, 2);
  EXPECT_EQ(summary.sum, 3);
  EXPECT_EQ(summary.max, 2);
  const Summary none = summary_of<float>(DType::kFp32, {kNan});
  EXPECT_TRUE(std::isnan(none.mean()));
  EXPECT_EQ(none.largest(), 0);
}

TEST(Summary, OfEveryType) {
  EXPECT_EQ(summary_of<double>(DType::kFp64, {1, 1e300}).max, 1e300);
  EXPECT_EQ(summary_of<uint16_t>(DType::kBf16, {0x3f80, 0xc000}).min, -2);
  EXPECT_EQ(summary_of<uint16_t>(DType::kFp16, {0x3c00, 0xc000, 0x7c00}).min, -2);
  EXPECT_EQ(summary_of<uint16_t>(DType::kFp16, {0x3c00, 0xc000, 0x7c00}).num_inf, 1);
  EXPECT_EQ(summary_of<int64_t>(DType::kInt64, {-5, 7}).sum, 2);
  EXPECT_EQ(summary_of<int32_t>(DType::kInt32, {-5, 7}).sum, 2);
  EXPECT_EQ(summary_of<uint8_t>(DType::kUint8, {255, 1}).sum, 256);
  EXPECT_EQ(summary_of<uint8_t>(DType::kBool, {1, 0, 1}).sum, 2);
}

TEST(Distance, OfTheSameBits) {
  const std::vector<float> values = {1, -0.0f, kNan, kInf};
  const Distance distance = distance_of(DType::kFp32, values, values);
  EXPECT_EQ(distance.num_different, 0);
  EXPECT_EQ(distance.num_values, 4);
  EXPECT_EQ(distance.relative(), 0);
  EXPECT_EQ(distance.relative_norm(), 0);
}

TEST(Distance, IsRelativeToTheFirst) {
  const Distance distance = distance_of<float>(DType::kFp32, {3, -4, 0}, {3, -2, 1});
  EXPECT_EQ(distance.num_different, 2);
  EXPECT_EQ(distance.largest, 2);
  EXPECT_EQ(distance.relative(), 0.5);
  EXPECT_DOUBLE_EQ(distance.relative_norm(), std::sqrt(5.0) / 5);
  EXPECT_EQ(distance_of<float>(DType::kFp32, {0}, {1}).relative(), kInf);
  EXPECT_EQ(distance_of<float>(DType::kFp32, {0}, {0}).relative(), 0);
}

// Blocks that are equal count for what differences are relative to.
TEST(Distance, IsRelativeToAllOfTheFirst) {
  std::vector<float> a(5000, 2), b = a;
  b[4999] = 3;
  const Distance distance = distance_of(DType::kFp32, a, b);
  EXPECT_EQ(distance.num_different, 1);
  EXPECT_DOUBLE_EQ(distance.relative_norm(), 1 / std::sqrt(4 * 5000));
}

TEST(Distance, BitsCountAndNotNumbers) {
  EXPECT_EQ(distance_of<float>(DType::kFp32, {0.0f, 1}, {-0.0f, 1}).num_different, 1);
  // Beyond what fp64 tells apart.
  const int64_t large = (int64_t{1} << 53);
  EXPECT_EQ(distance_of<int64_t>(DType::kInt64, {large}, {large + 1}).num_different, 1);
}

TEST(Distance, WhatIsNotFiniteHasNone) {
  const Distance distance = distance_of<float>(DType::kFp32, {kNan, 1, kInf, kNan, 5},
                                               {1, kNan, kInf, kNan, 7});
  EXPECT_EQ(distance.num_different, 3);
  EXPECT_EQ(distance.num_not_finite, 2);
  EXPECT_EQ(distance.largest, 2);
  EXPECT_EQ(distance_of<float>(DType::kFp32, {kInf, 5}, {1, 7}).largest, 2);
}

TEST(Distance, OfTwoTypesIsThatOfTheNumbers) {
  const std::vector<float> a = {1, 1.001f, kNan};
  const std::vector<uint16_t> b = {0x3f80, 0x3f80, 0x7fc0};  // 1, 1, NaN of bf16
  Distance distance;
  distance.add(DType::kFp32, bytes_of(a), DType::kBf16, bytes_of(b), 3);
  EXPECT_EQ(distance.num_different, 1);
  EXPECT_DOUBLE_EQ(distance.largest, static_cast<double>(1.001f) - 1);
}

}  // namespace
}  // namespace zero::launcher::values_test
