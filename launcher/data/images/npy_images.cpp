#include "launcher/data/images/npy_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace zero::data {
namespace {

namespace fs = std::filesystem;

std::string images_path(const std::string& folder) {
  return (fs::path(folder) / "images.npy").string();
}

std::string labels_path(const std::string& folder) {
  return (fs::path(folder) / "labels.npy").string();
}

bool has_file(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_number_of_channels(int64_t length) { return length == 1 || length == 3; }

void check_is_images(const NpyArray& array) {
  const std::string& path = array.file().path();
  if (array.type() != "u1")
    throw DataError(
        fmt::format("the images are of type {}, not uint8 (u1)", array.type()), path,
        "save images.astype(numpy.uint8), of values from 0 to 255");
  const auto& shape = array.shape();
  const bool fits = shape.size() == 4 &&
                    (is_number_of_channels(shape[3]) || is_number_of_channels(shape[1]));
  if (!fits || shape[0] == 0)
    throw DataError(
        fmt::format("the images are of shape {}, not (N, H, W, C) or (N, C, H, "
                    "W) with C of 1 or 3 and N above 0",
                    array.shape_text()),
        path, "save the array in such a shape; gray ones as images[..., None]");
}

void check_is_labels(const NpyArray& array, int64_t num_images) {
  const std::string& path = array.file().path();
  const char kind = array.type()[0];
  if ((kind != 'i' && kind != 'u') || array.bytes_per_value() > 8)
    throw DataError(
        fmt::format("the labels are of type {}, not of integers", array.type()), path,
        "save labels.astype(numpy.int64)");
  if (array.shape() == std::vector<int64_t>{num_images}) return;
  throw DataError(fmt::format("the labels are of shape {}, there are {} images",
                              array.shape_text(), num_images),
                  path, "save one label for each image, in one dimension");
}

// A little-endian integer of 1, 2, 4 or 8 bytes. Unsigned ones above int64 become
// negative.
int64_t integer_at(const unsigned char* bytes, int64_t size, bool is_signed) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, static_cast<size_t>(size));
  if (!is_signed) return static_cast<int64_t>(bits);
  const int unused = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(bits << unused) >> unused;
}

}  // namespace

NpyImages::NpyImages(const std::string& folder, ImageLabels labels)
    : folder_(folder), images_(images_path(folder)) {
  check_is_images(images_);
  const auto& shape = images_.shape();
  channels_last_ = is_number_of_channels(shape[3]);
  height_ = shape[channels_last_ ? 1 : 2];
  width_ = shape[channels_last_ ? 2 : 3];
  num_channels_ = shape[channels_last_ ? 3 : 1];
  check_num_pixels(height_, width_, images_.file().path());
  num_bytes_ = images_.file().size_bytes();
  if (labels == ImageLabels::kRequired) read_labels();
}

bool NpyImages::is_in(const std::string& folder) {
  return has_file(images_path(folder)) || has_file(labels_path(folder));
}

void NpyImages::read_labels() {
  const std::string path = labels_path(folder_);
  if (!has_file(path))
    throw DataError("there are no labels beside images.npy", path,
                    "save them there: one integer for each image");
  const NpyArray array(path);
  check_is_labels(array, num_images());
  const auto bytes = array.file().view(array.data_begin());
  const int64_t size = array.bytes_per_value();
  int64_t largest = 0;
  for (int64_t i = 0; i < num_images(); ++i) {
    const int64_t label =
        integer_at(bytes.get() + i * size, size, array.type()[0] == 'i');
    if (label < 0 || label > kLargestLabel)
      throw DataError(fmt::format("label {} of image {} does not lie between 0 and {}",
                                  label, i, kLargestLabel),
                      at_byte(path, array.data_begin() + i * size),
                      "number the classes from 0 on");
    labels_.push_back(static_cast<int32_t>(label));
    largest = std::max(largest, label);
  }
  class_names_ = numbered_classes(largest + 1);
  num_bytes_ += array.file().size_bytes();
}

std::string NpyImages::name(int64_t i) const { return fmt::format("images.npy:{}", i); }

Image NpyImages::read(int64_t i) const {
  const int64_t num_pixels = height_ * width_;
  const auto values =
      images_.file().view(images_.data_begin() + i * num_pixels * num_channels_);
  const int64_t step = channels_last_ ? num_channels_ : 1;  // between pixels
  Image image{height_, width_, std::vector<uint8_t>(static_cast<size_t>(num_pixels * 3))};
  for (int64_t channel = 0; channel < 3; ++channel) {
    const int64_t stored = std::min(channel, num_channels_ - 1);
    const unsigned char* from = values.get() + stored * (channels_last_ ? 1 : num_pixels);
    for (int64_t p = 0; p < num_pixels; ++p) image.rgb[p * 3 + channel] = from[p * step];
  }
  return image;
}

uint64_t NpyImages::content_hash(uint64_t seed, const OnRead& on_read) const {
  const uint64_t hash = hash_file(images_.file(), "images.npy", seed, on_read);
  if (labels_.empty()) return hash;
  return hash_file(MappedFile(labels_path(folder_), true), "labels.npy", hash, on_read);
}

}  // namespace zero::data
