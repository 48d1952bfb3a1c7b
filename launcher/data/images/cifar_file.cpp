#include "launcher/data/images/cifar_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "launcher/data/images/decode.h"
#include "launcher/data/listed_files.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecord10 = 3073, kRecord100 = 3074;

// How many labels a record has, as the file's length and then its name tell.
int64_t num_labels_of(const MappedFile& file) {
  const int64_t size = file.size_bytes();
  const bool fits_10 = size % kRecord10 == 0, fits_100 = size % kRecord100 == 0;
  const std::string name = fs::path(file.path()).filename().string();
  const bool is_named_100 = name == "train.bin" || name == "test.bin";
  if (size == 0)
    throw DataError("the data file is empty", at_byte(file.path(), 0),
                    "name another file, or copy this one again");
  if (fits_10 && fits_100) return is_named_100 ? 2 : 1;
  if (fits_10 || fits_100) return fits_10 ? 1 : 2;
  const int64_t record = is_named_100 ? kRecord100 : kRecord10;
  throw DataError(
      fmt::format(
          "{} bytes are no whole number of CIFAR's records of {} (CIFAR-10) or {} "
          "(CIFAR-100) bytes: the last one is incomplete",
          size, kRecord10, kRecord100),
      at_byte(file.path(), size - size % record),
      "copy the file again, or name one of CIFAR's binary version");
}

// The lines of a file that have a name; none: there is no such file.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

std::vector<std::string> cifar_classes(const std::string& path, int64_t count) {
  const char* list = count == 10 ? "batches.meta.txt" : "fine_label_names.txt";
  const std::string list_path = (fs::path(path).parent_path() / list).string();
  std::vector<std::string> names = names_in(list_path);
  if (names.empty()) return numbered_classes(count);
  if (std::ssize(names) == count) return names;
  throw DataError(fmt::format("the list names {} classes, CIFAR-{} has {}", names.size(),
                              count, count),
                  list_path, "copy the list again, or remove it");
}

}  // namespace

CifarFile::CifarFile(const std::string& path, ImageLabels labels)
    : file_(path, /*keep_mapped=*/true), num_labels_(num_labels_of(file_)) {
  if (labels == ImageLabels::kNone) return;
  class_names_ = cifar_classes(path, num_classes());
  read_labels();
}

std::vector<std::string> CifarFile::training_files(const std::string& folder) {
  std::vector<std::string> batches, all, others;
  bool has_pictures = false;
  for (const FolderEntry& entry : entries_of(folder)) {
    has_pictures = has_pictures || entry.is_folder || is_image_name(entry.name);
    if (entry.is_folder || !entry.name.ends_with(".bin")) continue;
    const bool is_batch = entry.name.starts_with("data_batch_");
    auto& files = is_batch ? batches : entry.name == "train.bin" ? all : others;
    files.push_back((fs::path(folder) / entry.name).string());
  }
  if (!batches.empty()) return batches;
  if (!all.empty() || others.empty() || has_pictures) return all;
  throw DataError(
      "the folder holds no file that is named as CIFAR's for training are: "
      "data_batch_*.bin, train.bin",
      folder, fmt::format("name the file itself: {}", others.front()));
}

void CifarFile::read_labels() {
  labels_.resize(static_cast<size_t>(num_images()));
  const auto bytes = file_.view();
  for (int64_t i = 0; i < num_images(); ++i) {
    const int64_t offset = i * record_bytes() + num_labels_ - 1;
    labels_[i] = bytes.get()[offset];
    if (labels_[i] >= num_classes())
      throw DataError(fmt::format("label {} of image {} does not fit {} of {} classes",
                                  labels_[i], i, kind(), num_classes()),
                      at_byte(file_.path(), offset),
                      "name a file of CIFAR's binary version, or copy it again");
  }
}

std::string CifarFile::kind() const { return fmt::format("CIFAR-{}", num_classes()); }

std::string CifarFile::name(int64_t i) const {
  return fmt::format("{}:{}", fs::path(file_.path()).filename().string(), i);
}

Image CifarFile::read(int64_t i) const {
  const auto record = file_.view(i * record_bytes() + num_labels_);
  Image image{kSide, kSide, std::vector<uint8_t>(kPixelBytes)};
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t p = 0; p < kSide * kSide; ++p)
      image.rgb[p * 3 + channel] = record.get()[channel * kSide * kSide + p];
  return image;
}

uint64_t CifarFile::content_hash(uint64_t seed, const OnRead& on_read) const {
  return hash_file(file_, fs::path(file_.path()).filename().string(), seed, on_read);
}

}  // namespace zero::data
