#pragma once
#include "launcher/data/images/image_part.h"
#include "launcher/data/images/npy_array.h"

namespace zero::data {

// A folder with images.npy: uint8 of shape (N, H, W, C) or (N, C, H, W), C 1 or 3, and
// labels.npy: (N,) of integers. Where the last length is 1 or 3 it is that of channels.
// Classes are numbers, up to the largest label.
class NpyImages : public ImagePart {
 public:
  // Throws DataError for arrays of another kind or length, and for a label below 0 or
  // above kLargestLabel. Reads every label.
  NpyImages(const std::string& folder, ImageLabels labels);

  static constexpr int64_t kLargestLabel = (1 << 20) - 1;

  // Does the folder hold such arrays, or one of them?
  static bool is_in(const std::string& folder);

  std::string kind() const override { return "NPY"; }
  std::string where() const override { return images_.file().path(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> warnings() const override { return {}; }
  int64_t num_images() const override { return images_.shape()[0]; }
  int64_t num_bytes() const override { return num_bytes_; }
  int64_t label(int64_t i) const override {
    return labels_.empty() ? kNoLabel : labels_[i];
  }
  std::string name(int64_t i) const override;
  Image read(int64_t i) const override;
  void check(const OnRead&) const override {}  // done by construction
  uint64_t content_hash(uint64_t seed, const OnRead& on_read) const override;

 private:
  void read_labels();

  // Constant after construction.
  std::string folder_;
  NpyArray images_;
  bool channels_last_ = true;
  int64_t height_ = 0, width_ = 0, num_channels_ = 0;
  int64_t num_bytes_ = 0;
  std::vector<int32_t> labels_;
  std::vector<std::string> class_names_;
};

}  // namespace zero::data
