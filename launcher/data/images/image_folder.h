#pragma once
#include "launcher/data/images/image_part.h"

namespace zero::data {

// JPEG and PNG files of a folder, each read when it is asked for.
//
// With labels it is a folder of class folders: names of classes are sorted bytewise, and
// so are the files of each, at any depth. Without, files may lie anywhere in it. Hidden
// names and symbolic links are left out.
class ImageFolder : public ImagePart {
 public:
  // Throws DataError for images beside the class folders, an empty class, and a folder
  // without any.
  ImageFolder(const std::string& folder, ImageLabels labels);

  // One image without a label. Throws DataError when the path cannot be read.
  static std::unique_ptr<ImagePart> of_file(const std::string& path);

  std::string kind() const override { return "JPEG and PNG"; }
  std::string where() const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> warnings() const override;
  int64_t num_images() const override { return std::ssize(files_); }
  int64_t num_bytes() const override { return num_bytes_; }
  int64_t label(int64_t i) const override { return files_[i].label; }
  std::string name(int64_t i) const override { return files_[i].name; }
  Image read(int64_t i) const override;
  void check(const OnRead& on_read) const override;
  // Files are read by all threads that this process may run on.
  uint64_t content_hash(uint64_t seed, const OnRead& on_read) const override;

 private:
  struct ImageFile {
    std::string name;  // the path below folder_
    int64_t size_bytes = 0;
    int32_t label = kNoLabel;
  };

  ImageFolder() = default;
  void add_classes();
  void add_files_of(const std::string& subfolder, int64_t label);
  void ignore(const std::string& path);
  void add_file(const std::string& name, int64_t label);
  std::string path(int64_t i) const;
  MappedFile open(int64_t i) const;

  // Constant after construction.
  std::string folder_;
  std::vector<ImageFile> files_;
  std::vector<std::string> class_names_;
  std::string first_ignored_;
  int64_t num_ignored_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace zero::data
