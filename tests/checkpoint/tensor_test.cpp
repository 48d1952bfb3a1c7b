#include "checkpoint/tensor.h"

#include <random>

#include "support.h"

namespace zero::checkpoint::testing::tensor_test {
namespace {

// The flat indices of a box's elements, in its order.
std::vector<int64_t> flat_indices(const Box& box, const Shape& shape) {
  std::vector<int64_t> indices;
  const int64_t numel = checked_numel(box.count).value();
  for (int64_t i = 0; i < numel; ++i) {
    int64_t rest = i, index = 0, stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      index += (box.start[dim] + rest % box.count[dim]) * stride;
      rest /= box.count[dim];
      stride *= shape[dim];
    }
    indices.push_back(index);
  }
  return indices;
}

TEST(ShapeTest, CountsElements) {
  EXPECT_EQ(checked_numel({}), 1);
  EXPECT_EQ(checked_numel({3, 5}), 15);
  EXPECT_EQ(checked_numel({4, 0, 7}), 0);
}

TEST(ShapeTest, RefusesImpossibleShapes) {
  EXPECT_EQ(checked_numel({-1}), std::nullopt);
  EXPECT_EQ(checked_numel({int64_t{1} << 31, int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(checked_numel({0, int64_t{1} << 62, 8}), std::nullopt);
  EXPECT_EQ(checked_numel(Shape(33, 1)), std::nullopt);
}

TEST(ShapeTest, BoxesCoverAnyRangeInOrder) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    Shape shape(1 + random() % 4);
    for (auto& dim : shape) dim = 1 + static_cast<int64_t>(random() % 5);
    const int64_t full = checked_numel(shape).value();
    const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(full));
    const int64_t numel =
        1 + static_cast<int64_t>(random() % static_cast<uint64_t>(full - begin));
    int64_t next = begin;
    const auto boxes = boxes_of_range(shape, begin, numel);
    EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
    for (const auto& box : boxes) {
      for (const int64_t index : flat_indices(box, shape)) EXPECT_EQ(index, next++);
    }
    EXPECT_EQ(next, begin + numel) << to_string(shape);
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::tensor_test
