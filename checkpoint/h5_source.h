#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/tensor.h"

namespace zero::checkpoint {

// A plain HDF5 file that others wrote, such as one of h5py: contiguous, compact and
// chunked datasets, packed by deflate, shuffle and fletcher32, of IEEE's floats of 16, 32
// and 64 bits, of bf16 as our own files have it, and of int64, int32 and uint8.
//
// The constructor looks at every object before any value is read, and refuses with its
// path and a cure: external links and storage, virtual datasets, soft links that lead in
// a circle or to nothing in this file, links of users, other filters and
// types, named types, spaces without size, sizes that no tensor has, chunks of more than
// kMaxH5ChunkBytes, datasets that nobody wrote. A soft link is a second name of what it
// leads to. Every failure is a CheckpointError. Not thread-safe.
class H5Source {
 public:
  explicit H5Source(const std::string& file);
  ~H5Source();

  // By path, without the first '/': "params/h.0.weight". Values lie in either byte order.
  const std::map<std::string, TensorType>& datasets() const { return datasets_; }
  const std::string& path() const { return path_; }

  // Read elements [begin, begin + out.size()) of the flat tensor, as fp32: exactly, fp64
  // rounded to nearest. Integers are refused.
  //
  // Takes at most a MiB, and the chunks of a row or one chunk, whatever the range. When
  // this throws, `out` may have been written.
  void read(const std::string& dataset, int64_t begin, std::span<float> out);

  // Read elements [begin, begin + numel) as they are stored, in this machine's order.
  void read_stored(const std::string& dataset, int64_t begin, int64_t numel, void* out);

 private:
  struct Opened;

  std::string path_;
  std::map<std::string, TensorType> datasets_;
  std::unique_ptr<Opened> opened_;
};

// A chunk is unpacked whole.
constexpr int64_t kMaxH5ChunkBytes = int64_t{1} << 30;

}  // namespace zero::checkpoint
