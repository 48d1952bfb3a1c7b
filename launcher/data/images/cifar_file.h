#pragma once
#include "launcher/data/images/image_part.h"

namespace zero::data {

// A file of CIFAR-10 or CIFAR-100 in the binary version: records of a label, or a coarse
// and a fine one, and 3 * 32 * 32 bytes: all of red, green and blue, each row by row.
//
// A file whose length fits both is CIFAR-100 if it is named train.bin or test.bin.
// Classes are those of the fine labels; their names come from batches.meta.txt or
// fine_label_names.txt beside the file, where that is.
class CifarFile : public ImagePart {
 public:
  // Throws DataError for an incomplete record, a label out of range, and a list of names
  // that has not one for each class. Reads every label.
  CifarFile(const std::string& path, ImageLabels labels);

  // The files of a folder that are there to be trained on: data_batch_*.bin, else
  // train.bin; sorted. None: the folder has no .bin file. Throws DataError where it has
  // others alone.
  static std::vector<std::string> training_files(const std::string& folder);

  std::string kind() const override;
  std::string where() const override { return file_.path(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> warnings() const override { return {}; }
  int64_t num_images() const override { return file_.size_bytes() / record_bytes(); }
  int64_t num_bytes() const override { return file_.size_bytes(); }
  int64_t label(int64_t i) const override {
    return labels_.empty() ? kNoLabel : labels_[i];
  }
  std::string name(int64_t i) const override;
  Image read(int64_t i) const override;
  void check(const OnRead&) const override {}  // done by construction
  uint64_t content_hash(uint64_t seed, const OnRead& on_read) const override;

 private:
  int64_t record_bytes() const { return num_labels_ + kPixelBytes; }
  int64_t num_classes() const { return num_labels_ == 1 ? 10 : 100; }
  void read_labels();

  static constexpr int64_t kSide = 32, kPixelBytes = 3 * kSide * kSide;

  // Constant after construction.
  MappedFile file_;
  int64_t num_labels_;  // of a record
  std::vector<uint8_t> labels_;
  std::vector<std::string> class_names_;
};

}  // namespace zero::data
