#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

// One description of a tensor, for all who speak of one: the model that has it, the rank
// that wrote a part of it, the manifest that lists it, the reader that looks for it.
namespace zero::checkpoint {

// Sizes of the dimensions; values lie in row-major order.
using Shape = std::vector<int64_t>;

// Count the elements; a scalar () has one. nullopt: a negative dimension, more than
// kMaxDims of them, or more elements than an int64_t of 8-byte values can address.
std::optional<int64_t> checked_numel(const Shape& shape);

std::string to_string(const Shape& shape);  // "(4, 16)"

struct TensorType {
  DType dtype = DType::kFp32;
  Shape shape;
};

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

// Throw CheckpointError unless a tensor of `full` elements has [begin, begin + numel).
// `verb` says what was done with these: "wanted", "given".
void require_part(const std::string& path, const std::string& fqn, int64_t full,
                  int64_t begin, int64_t numel, const char* verb);

// What a tensor is to the run; each kind is an HDF5 group.
enum class Kind { kParam, kExpAvg, kExpAvgSq, kBuffer, kUser, kMomentumBuffer, kSum };

// What optimizers keep beside each parameter.
inline constexpr Kind kStateKinds[] = {Kind::kExpAvg, Kind::kExpAvgSq,
                                       Kind::kMomentumBuffer, Kind::kSum};

const char* name_of(Kind kind);  // "params", "exp_avg", ...: see FORMAT.md
std::optional<Kind> kind_named(std::string_view name);

// Buffers and user bytes are replicated: rank 0 writes them whole.
inline bool is_replicated(Kind kind) {
  return kind == Kind::kBuffer || kind == Kind::kUser;
}

// Where consecutive elements of a tensor lie.
struct Piece {
  std::string file;
  int64_t begin = 0;             // first element, in the flat tensor
  int64_t offset = 0;            // of the first byte, in the file
  int64_t bytes = 0;             // never 0
  std::vector<uint64_t> hashes;  // XXH3 of each kChunkBytes, the last may be shorter

  bool operator==(const Piece&) const = default;
};

struct StoredTensor {
  Kind kind = Kind::kParam;
  std::string fqn;
  DType dtype = DType::kFp32;
  Shape shape;  // of the full tensor
  // In the order of their elements: none of what a model has in memory, a rank's own in
  // what that rank wrote, the whole tensor in a manifest.
  std::vector<Piece> pieces = {};

  int64_t numel() const { return checked_numel(shape).value(); }
  int64_t num_bytes() const { return numel() * size_of(dtype); }
  bool operator==(const StoredTensor&) const = default;
};

}  // namespace zero::checkpoint
