#include "launcher/data/images/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "launcher/data/listed_files.h"
#include "offload/thread_pool.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClassLayout =
    "make a folder for each class: FOLDER/cat/1.jpg, FOLDER/dog/1.png";

[[noreturn]] void refuse_unlabelled(const std::string& path) {
  throw DataError("an image lies in no folder of a class, so it has no label", path,
                  kClassLayout);
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, ImageLabels labels)
    : folder_(folder) {
  if (labels == ImageLabels::kRequired) {
    add_classes();
  } else {
    add_files_of("", kNoLabel);
  }
  if (!files_.empty()) return;
  throw DataError("the folder holds no images (.png, .jpg, .jpeg)", folder,
                  "name another folder; hidden names and symbolic links do not count");
}

std::unique_ptr<ImagePart> ImageFolder::of_file(const std::string& path) {
  std::unique_ptr<ImageFolder> part(new ImageFolder());
  part->folder_ = fs::path(path).parent_path().string();
  part->add_file(fs::path(path).filename().string(), kNoLabel);
  return part;
}

void ImageFolder::add_classes() {
  for (const FolderEntry& entry : entries_of(folder_)) {
    const std::string path = (fs::path(folder_) / entry.name).string();
    if (entry.is_folder)
      class_names_.push_back(entry.name);
    else if (is_image_name(entry.name))
      refuse_unlabelled(path);
    else
      ignore(path);
  }
  if (class_names_.empty())
    throw DataError("the folder holds no folders of classes", folder_, kClassLayout);
  for (size_t i = 0; i < class_names_.size(); ++i) {
    const size_t num_before = files_.size();
    add_files_of(class_names_[i], static_cast<int64_t>(i));
    if (files_.size() == num_before)
      throw DataError("the folder of a class holds no images (.png, .jpg, .jpeg)",
                      (fs::path(folder_) / class_names_[i]).string(),
                      "remove it, or put images there; symbolic links do not count");
  }
}

void ImageFolder::add_files_of(const std::string& subfolder, int64_t label) {
  const fs::path below(subfolder);
  for (const ListedFile& file : list_folder((fs::path(folder_) / below).string())) {
    if (is_image_name(file.name)) {
      add_file((below / file.name).string(), label);
    } else {
      ignore(file.path);
    }
  }
}

void ImageFolder::ignore(const std::string& path) {
  if (num_ignored_++ == 0) first_ignored_ = path;
}

void ImageFolder::add_file(const std::string& name, int64_t label) {
  std::error_code error;
  const fs::path path = fs::path(folder_) / name;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) throw_unreadable(path.string(), error);
  files_.push_back({name, size, static_cast<int32_t>(label)});
  num_bytes_ += size;
}

std::string ImageFolder::path(int64_t i) const {
  return (fs::path(folder_) / files_[i].name).string();
}

std::string ImageFolder::where() const { return num_images() == 1 ? path(0) : folder_; }

std::vector<std::string> ImageFolder::warnings() const {
  if (num_ignored_ == 0) return {};
  const std::string more =
      num_ignored_ == 1
          ? ""
          : fmt::format(" (and {} more)", fmt::group_digits(num_ignored_ - 1));
  return {fmt::format("{}{} is no image by its name (.png, .jpg, .jpeg): left out",
                      first_ignored_, more)};
}

MappedFile ImageFolder::open(int64_t i) const {
  MappedFile file(path(i), /*keep_mapped=*/true);
  if (file.size_bytes() == files_[i].size_bytes) return file;
  throw DataError(
      fmt::format("the image changed since this run listed it: {} bytes then, {} now",
                  files_[i].size_bytes, file.size_bytes()),
      file.path(), "leave data alone while a run reads it; start the run again");
}

Image ImageFolder::read(int64_t i) const {
  const MappedFile file = open(i);
  const auto bytes = file.view();
  return decode({bytes.get(), static_cast<size_t>(file.size_bytes())}, file.path());
}

void ImageFolder::check(const OnRead& on_read) const {
  constexpr int64_t kMostHeadBytes = 8;
  for (int64_t i = 0; i < num_images(); ++i) {
    const MappedFile file = open(i);
    const auto head = static_cast<size_t>(std::min(file.size_bytes(), kMostHeadBytes));
    const auto bytes = file.view();
    if (encoding_of({bytes.get(), head}) == Encoding::kUnknown)
      decode({bytes.get(), head}, file.path());  // throws
    if (on_read) on_read(static_cast<int64_t>(head));
  }
}

uint64_t ImageFolder::content_hash(uint64_t seed, const OnRead& on_read) const {
  constexpr int64_t kFilesAtOnce = 256;
  ThreadPool threads;
  Hasher hasher(seed);
  std::vector<uint64_t> hashes(kFilesAtOnce);
  for (int64_t first = 0; first < num_images(); first += kFilesAtOnce) {
    const int64_t count = std::min(kFilesAtOnce, num_images() - first);
    threads.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        hashes[i] = hash_file(open(first + i), files_[first + i].name, seed);
    });
    hasher.add(hashes.data(), static_cast<size_t>(count) * sizeof(hashes[0]));
    for (int64_t i = 0; on_read && i < count; ++i) on_read(files_[first + i].size_bytes);
  }
  return hasher.digest();
}

}  // namespace zero::data
