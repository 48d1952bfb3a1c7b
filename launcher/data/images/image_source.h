#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/images/image_part.h"
#include "launcher/data/source.h"

namespace zero::data {

// Images of several paths, in the order given, as one long row: what --data PATH... names
// for a model that looks at images. Each path is
//
//   a folder of class folders     JPEG and PNG: FOLDER/cat/1.jpg
//   a folder or file of CIFAR     data_batch_*.bin, train.bin; a file by its own name
//   a folder of arrays            images.npy and labels.npy
//
// All must be of one kind and have the same classes. Without labels a folder of JPEG and
// PNG files, and one such file, do as well. Nothing is decoded before it is asked for.
// const members may be called from several threads.
class ImageSource : public Source {
 public:
  // Throws DataError for every path that cannot be used.
  explicit ImageSource(const std::vector<std::string>& paths,
                       ImageLabels labels = ImageLabels::kRequired);

  int64_t num_images() const { return ends_.back(); }
  int64_t num_classes() const { return std::ssize(class_names_); }  // 0: no labels

  int64_t num_items() const override { return num_images(); }
  int64_t vocab_size() const override { return num_classes(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  // That of the first image, if it is a square of at most 224 x 224.
  int64_t image_size() const override;

  int64_t label(int64_t i) const {
    return of_part(i, &ImagePart::label);
  }  // in [0, num_classes()), or kNoLabel

  // The path below the given one, or the file and the number in it: "test.bin:17". Of
  // several given paths behind that one.
  std::string name(int64_t i) const;

  // Throws DataError with the file's name for an image that is damaged or changed.
  Image read(int64_t i) const { return of_part(i, &ImagePart::read); }

  // "JPEG and PNG, 1,234 images, 10 classes"
  std::string describe() const override;
  std::string where() const override;
  // A line for each path with files that are left out.
  std::vector<std::string> warnings() const override;
  int64_t num_bytes() const override;
  // Throws DataError for more classes, for files that are no images by their first bytes,
  // or whose length changed. Reads little: an image may still be found damaged when it is
  // decoded.
  void check_ids(int64_t vocab_size, const OnRead& on_read = {}) const override;
  uint64_t content_hash(const OnRead& on_read = {}) const override;
  int64_t num_samples(const SampleShape&) const override { return num_images(); }
  std::unique_ptr<Samples> samples(const SampleShape& shape,
                                   const SampleOrder& order) const override;

 private:
  struct Place {
    const ImagePart& part;
    int64_t i;                 // in it
    const std::string& begin;  // of its names
  };
  Place place(int64_t i) const;
  template <class Result>
  Result of_part(int64_t i, Result (ImagePart::*get)(int64_t) const) const {
    const Place at = place(i);
    return (at.part.*get)(at.i);
  }
  void add_path(const std::string& path, ImageLabels labels);
  void check_alike() const;

  // Constant after construction.
  ImageParts parts_;
  std::vector<std::string> begins_;  // of each part's names
  std::vector<int64_t> ends_;        // number behind each part's last image
  std::vector<std::string> class_names_;
};

}  // namespace zero::data
