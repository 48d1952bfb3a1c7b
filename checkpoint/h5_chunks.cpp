#include <zlib.h>

#include <array>
#include <optional>
#include <vector>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/h5_listing.h"

namespace zero::checkpoint {
namespace {

constexpr int64_t kChecksumBytes = 4;  // behind what fletcher32 is of

// How many bytes zlib makes of these; none: it makes more than `most`, or they end before
// its own end.
std::optional<int64_t> inflated_bytes(char* from, int64_t bytes, int64_t most) {
  std::array<Bytef, 64 << 10> part;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw CheckpointError("", "", "zlib has no memory");
  stream.next_in = reinterpret_cast<Bytef*>(from);
  stream.avail_in = static_cast<uInt>(bytes);
  int result = Z_OK;
  while (result == Z_OK && static_cast<int64_t>(stream.total_out) <= most) {
    stream.next_out = part.data();
    stream.avail_out = part.size();
    result = inflate(&stream, Z_NO_FLUSH);
  }
  const auto count = static_cast<int64_t>(stream.total_out);
  inflateEnd(&stream);
  if (result != Z_STREAM_END) return std::nullopt;
  return count;
}

class Chunks {
 public:
  Chunks(hid_t dataset, hid_t options, const Shape& shape, DType dtype)
      : dataset_(dataset), size_(shape.size()) {
    check_h5(H5Pget_chunk(options, static_cast<int>(size_.size()), size_.data()),
             "H5Pget_chunk");
    const Shape size(size_.begin(), size_.end());
    bytes_ = checked_numel(size).value() * size_of(dtype);
    const auto count = check_h5(H5Pget_nfilters(options), "H5Pget_nfilters");
    for (unsigned i = 0; i < count; ++i) {
      unsigned flags = 0, config = 0;
      size_t num_values = 0;
      filters_.push_back(
          H5Pget_filter2(options, i, &flags, &num_values, nullptr, 0, nullptr, &config));
    }
  }

  void require_all(const Shape& shape) {
    std::vector<hsize_t> at(shape.size());
    for (size_t dim = shape.size(); dim > 0;) {
      require(at);
      // The next one: the last dimension runs first.
      for (dim = shape.size(); dim > 0; --dim) {
        at[dim - 1] += size_[dim - 1];
        if (at[dim - 1] < static_cast<hsize_t>(shape[dim - 1])) break;
        at[dim - 1] = 0;
      }
    }
  }

 private:
  void require(const std::vector<hsize_t>& at) {
    hsize_t stored = 0;
    if (H5Dget_chunk_storage_size(dataset_, at.data(), &stored) < 0 || stored == 0)
      refuse(at, "is not there: nobody has written it",
             "write it anew: new[name] = old[name][...] in h5py");
    const auto stored_bytes = static_cast<int64_t>(stored);
    if (stored_bytes > 2 * bytes_ + 4096)
      refuse(at, text_of("takes ", stored_bytes, " bytes for ", bytes_));
    if (unpacked_bytes(at, stored_bytes) != bytes_)
      refuse(at, text_of("does not unpack to its ", bytes_, " bytes"));
  }

  std::optional<int64_t> unpacked_bytes(const std::vector<hsize_t>& at, int64_t bytes) {
    if (filters_.empty()) return bytes;
    packed_.resize(bytes);
    uint32_t skipped = 0;
    check_h5(H5Dread_chunk(dataset_, H5P_DEFAULT, at.data(), &skipped, packed_.data()),
             "H5Dread_chunk");
    std::optional<int64_t> left = bytes;
    for (size_t i = filters_.size(); i > 0 && left; --i) {
      if (skipped >> (i - 1) & 1) continue;
      if (filters_[i - 1] == H5Z_FILTER_FLETCHER32)
        *left -= kChecksumBytes;
      else if (filters_[i - 1] == H5Z_FILTER_DEFLATE)
        left = inflated_bytes(packed_.data(), *left, bytes_ + kChecksumBytes);
      if (left && *left < 0) left.reset();
    }
    return left;
  }

  [[noreturn]] static void refuse(const std::vector<hsize_t>& at, const std::string& what,
                                  const std::string& cure = "") {
    const Shape place(at.begin(), at.end());
    throw CheckpointError("", "", text_of("its chunk at ", to_string(place), " ", what),
                          cure);
  }

  hid_t dataset_;
  std::vector<hsize_t> size_;
  int64_t bytes_ = 0;
  std::vector<H5Z_filter_t> filters_;
  std::vector<char> packed_;
};

}  // namespace

void require_whole_chunks(hid_t dataset, const Shape& shape, DType dtype) {
  const H5Handle options(H5Dget_create_plist(dataset), H5Pclose, "H5Dget_create_plist");
  if (H5Pget_layout(options) != H5D_CHUNKED || checked_numel(shape) == 0) return;
  Chunks(dataset, options, shape, dtype).require_all(shape);
}

}  // namespace zero::checkpoint
