#include "launcher/data/images/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>

#include "base/names.h"
#include "base/text.h"
#include "launcher/data/images/cifar_file.h"
#include "launcher/data/images/image_folder.h"
#include "launcher/data/images/image_sampler.h"
#include "launcher/data/images/npy_images.h"
#include "launcher/data/listed_files.h"

namespace zero::data {
namespace {

namespace fs = std::filesystem;

void add_folder(const std::string& folder, ImageLabels labels, ImageParts& parts) {
  if (NpyImages::is_in(folder)) {
    parts.push_back(std::make_unique<NpyImages>(folder, labels));
    return;
  }
  const std::vector<std::string> batches = CifarFile::training_files(folder);
  for (const std::string& path : batches)
    parts.push_back(std::make_unique<CifarFile>(path, labels));
  if (batches.empty()) parts.push_back(std::make_unique<ImageFolder>(folder, labels));
}

void add_file(const std::string& path, ImageLabels labels, ImageParts& parts) {
  if (path.ends_with(".bin")) {
    parts.push_back(std::make_unique<CifarFile>(path, labels));
  } else if (path.ends_with(".npy")) {
    throw DataError("an array of images has its labels beside it", path,
                    "name the folder that holds images.npy and labels.npy");
  } else if (!is_image_name(path)) {
    throw DataError("the file is neither an image nor one of CIFAR (.bin)", path,
                    "name a folder of class folders, of CIFAR, or of images.npy and "
                    "labels.npy");
  } else if (labels == ImageLabels::kRequired) {
    throw DataError("one image has no label", path,
                    "name a folder of class folders: FOLDER/cat/1.jpg");
  } else {
    parts.push_back(ImageFolder::of_file(path));
  }
}

// The first difference of two lists, for people.
std::string difference(const std::vector<std::string>& a,
                       const std::vector<std::string>& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  return fmt::format("class {} is '{}' there and '{}' here", in_a - a.begin(),
                     in_a == a.end() ? "missing" : *in_a,
                     in_b == b.end() ? "missing" : *in_b);
}

std::string counted(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", fmt::group_digits(count), count == 1 ? one : many);
}

}  // namespace

std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

ImageSource::ImageSource(const std::vector<std::string>& paths, ImageLabels labels) {
  if (paths.empty()) throw DataError("no data is given", "--data", "give --data PATH...");
  for (const std::string& path : paths) {
    add_path(path, labels);
    const fs::path given(path);
    const fs::path above = fs::is_directory(given) ? given : given.parent_path();
    begins_.resize(parts_.size(), paths.size() == 1 ? fs::path() : above / "");
  }
  for (const auto& part : parts_) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->num_images());
    if (part->class_names().size() > class_names_.size())
      class_names_ = part->class_names();
  }
  check_alike();
  for (const std::string& name : class_names_) {
    if (const std::string flaw = flaw_of_name(name); !flaw.empty())
      throw DataError("the name of class " + printable(name) + " " + flaw, where(),
                      "another name, in UTF-8");
  }
}

void ImageSource::add_path(const std::string& path, ImageLabels labels) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) throw_unreadable(path, error);
  if (fs::is_directory(status)) return add_folder(path, labels, parts_);
  if (fs::is_regular_file(status)) return add_file(path, labels, parts_);
  throw DataError("the data path is neither a file nor a folder", path,
                  "pipes and devices have no random access: write the data to a file");
}

// Numbers as names of classes may end earlier where the largest label is missing.
void ImageSource::check_alike() const {
  const ImagePart& first = *parts_.front();
  for (const auto& part : parts_) {
    if (part->kind() != first.kind())
      throw DataError(
          fmt::format("the data mixes two kinds: {} is {}, {} is {}", first.where(),
                      first.kind(), part->where(), part->kind()),
          part->where(), "name data of one kind");
    if (part->kind() == "NPY" || part->class_names() == first.class_names()) continue;
    throw DataError(fmt::format("the classes are not those of {}: {}", first.where(),
                                difference(first.class_names(), part->class_names())),
                    part->where(), "name paths with the same folders of classes");
  }
}

ImageSource::Place ImageSource::place(int64_t i) const {
  assert(0 <= i && i < num_images());
  const auto p = static_cast<size_t>(std::ranges::upper_bound(ends_, i) - ends_.begin());
  return {*parts_[p], i - (ends_[p] - parts_[p]->num_images()), begins_[p]};
}

std::string ImageSource::name(int64_t i) const {
  const Place at = place(i);
  return at.begin + at.part.name(at.i);
}

std::string ImageSource::describe() const {
  return fmt::format(
      "{}, {}, {}", parts_.front()->kind(), counted(num_images(), "image", "images"),
      num_classes() == 0 ? "no labels" : counted(num_classes(), "class", "classes"));
}

std::string ImageSource::where() const {
  return first_and_others(parts_.front()->where(), std::ssize(parts_));
}

std::vector<std::string> ImageSource::warnings() const {
  std::vector<std::string> lines;
  for (const auto& part : parts_)
    for (std::string& line : part->warnings()) lines.push_back(std::move(line));
  return lines;
}

int64_t ImageSource::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->num_bytes();
  return bytes;
}

int64_t ImageSource::image_size() const {
  constexpr int64_t kSmallest = 8, kLargest = 224;
  const Image first = read(0);
  const bool tells = first.height == first.width && first.height >= kSmallest &&
                     first.height <= kLargest;
  return tells ? first.height : 0;
}

void ImageSource::check_ids(int64_t vocab_size, const OnRead& on_read) const {
  if (num_classes() > vocab_size)
    throw DataError(
        fmt::format("the data have {} classes, the model {}", num_classes(), vocab_size),
        where(),
        fmt::format("data with at most {}; a new model may have --vocab {}",
                    counted(vocab_size, "class", "classes"), num_classes()));
  for (const auto& part : parts_) part->check(on_read);
}

uint64_t ImageSource::content_hash(const OnRead& on_read) const {
  uint64_t hash = 0;
  for (const auto& part : parts_) hash = part->content_hash(hash, on_read);
  return hash;
}

std::unique_ptr<Samples> ImageSource::samples(const SampleShape& shape,
                                              const SampleOrder& order) const {
  const Augmentation augmentation{
      .size = shape.image_size,
      .crop = shape.is_augmented ? Crop::kRandom : Crop::kCentre,
      .flip = shape.is_augmented};
  return std::make_unique<ImageSampler>(*this, augmentation, order);
}

}  // namespace zero::data
