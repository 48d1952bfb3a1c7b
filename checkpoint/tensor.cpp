#include "checkpoint/tensor.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

constexpr std::string_view kKindNames[] = {
    "params", "exp_avg", "exp_avg_sq", "buffers", "user", "momentum_buffer", "sum"};

}  // namespace

const char* name_of(Kind kind) { return kKindNames[static_cast<size_t>(kind)].data(); }

std::optional<Kind> kind_named(std::string_view name) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  if (found == std::end(kKindNames)) return std::nullopt;
  return static_cast<Kind>(found - std::begin(kKindNames));
}

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
  Shape row_numel(shape.size(), 1);  // elements that one step along each dimension passes
  for (size_t dim = shape.size() - 1; dim > 0; --dim)
    row_numel[dim - 1] = row_numel[dim] * shape[dim];

  std::vector<Box> boxes;
  for (const int64_t end = begin + numel; begin < end;) {
    size_t along = 0;  // the outermost dimension along which a whole row begins here
    while (begin % row_numel[along] != 0 || end - begin < row_numel[along]) ++along;
    Box box{Shape(shape.size()), shape};
    for (size_t dim = 0; dim < shape.size(); ++dim)
      box.start[dim] = begin / row_numel[dim] % shape[dim];
    std::fill_n(box.count.begin(), along, 1);
    box.count[along] =
        std::min((end - begin) / row_numel[along], shape[along] - box.start[along]);
    begin += box.count[along] * row_numel[along];
    boxes.push_back(std::move(box));
  }
  return boxes;
}

void require_part(const std::string& path, const std::string& fqn, int64_t full,
                  int64_t begin, int64_t numel, const char* verb) {
  if (begin >= 0 && numel >= 0 && begin <= full && numel <= full - begin) return;
  throw CheckpointError(
      path, fqn,
      text_of("has ", full, " elements, ", numel, " were ", verb, " from ", begin));
}

}  // namespace zero::checkpoint
