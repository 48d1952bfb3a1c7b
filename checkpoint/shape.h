#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Arithmetic on tensor shapes, in row-major order.
namespace zero::checkpoint {

using Shape = std::vector<int64_t>;

// Count the elements; a scalar () has one. nullopt: a negative dimension, more than
// kMaxDims of them, or more elements than an int64_t of 8-byte values can address.
std::optional<int64_t> checked_numel(const Shape& shape);

std::string to_string(const Shape& shape);  // "(4, 16)"

// An axis-aligned block of a tensor.
struct Box {
  Shape start;
  Shape count;
};

// Cut the flat range [begin, begin + numel) of a tensor into boxes, in flat order.
//
// There are at most 2 * dims - 1: ragged rows at both ends, a solid block in the middle,
// and so on inside. `shape` has at least one dimension; the range is not empty.
std::vector<Box> boxes_of_range(const Shape& shape, int64_t begin, int64_t numel);

}  // namespace zero::checkpoint
