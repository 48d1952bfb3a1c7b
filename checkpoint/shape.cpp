#include "checkpoint/shape.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

class BoxCutter {
 public:
  explicit BoxCutter(const Shape& shape) : shape_(shape), row_numel_(shape.size(), 1) {
    for (size_t dim = shape.size() - 1; dim > 0; --dim) {
      row_numel_[dim - 1] = row_numel_[dim] * shape[dim];
    }
  }

  // Cut [begin, end), counted inside the block that the indices `at` of the outer
  // dimensions select.
  void cut(Shape at, int64_t begin, int64_t end) {
    if (begin == end) return;
    const int64_t row = row_numel_[at.size()];
    const int64_t first = (begin + row - 1) / row, last = end / row;  // whole rows
    if (first > last) return cut_row(at, begin / row, begin % row, end - last * row);
    if (begin < first * row) cut_row(at, first - 1, begin - (first - 1) * row, row);
    if (first < last) add_rows(at, first, last - first);
    if (last * row < end) cut_row(at, last, 0, end - last * row);
  }

  std::vector<Box> take() { return std::move(boxes_); }

 private:
  void cut_row(Shape at, int64_t index, int64_t begin, int64_t end) {
    at.push_back(index);
    cut(std::move(at), begin, end);
  }

  void add_rows(const Shape& at, int64_t first, int64_t num_rows) {
    Box box{at, Shape(at.size(), 1)};
    box.start.push_back(first);
    box.count.push_back(num_rows);
    for (size_t dim = at.size() + 1; dim < shape_.size(); ++dim) {
      box.start.push_back(0);
      box.count.push_back(shape_[dim]);
    }
    boxes_.push_back(std::move(box));
  }

  const Shape& shape_;
  Shape row_numel_;  // elements that one step along each dimension passes
  std::vector<Box> boxes_;
};

}  // namespace

std::optional<int64_t> checked_numel(const Shape& shape) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;
  if (shape.size() > static_cast<size_t>(kMaxDims)) return std::nullopt;
  int64_t numel = 1;
  bool is_empty = false;
  for (const int64_t dim : shape) {
    const int64_t factor = std::max<int64_t>(dim, 1);  // the others must fit all the same
    if (dim < 0 || numel > kMost / factor) return std::nullopt;
    is_empty = is_empty || dim == 0;
    numel *= factor;
  }
  return is_empty ? 0 : numel;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t dim = 0; dim < shape.size(); ++dim)
    text += (dim > 0 ? ", " : "") + std::to_string(shape[dim]);
  return text + ")";
}

std::vector<Box> boxes_of_range(const Shape& shape, int64_t begin, int64_t numel) {
  assert(!shape.empty() && numel > 0);
  BoxCutter cutter(shape);
  cutter.cut({}, begin, begin + numel);
  return cutter.take();
}

}  // namespace zero::checkpoint
