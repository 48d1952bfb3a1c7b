#include "checkpoint/safetensors_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/dtype.h"
#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/io.h"
#include "checkpoint/json.h"

namespace zero::checkpoint {
namespace {

// What is read at once: it is still in the processor's cache when it is converted.
constexpr int64_t kReadBytes = int64_t{256} << 10;

// In which file each tensor lies.
using WeightMap = std::map<std::string, std::string>;

// "a, b and 3 more", for an error.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 50;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kMost) text += text_of(" and ", names.size() - kMost, " more");
  return text;
}

[[noreturn]] void refuse_without_weights(const Folder& folder) {
  std::vector<std::string> pickles;
  for (const auto& name : folder.names()) {
    const bool is_hugging_face = name.starts_with("pytorch_model");
    if (is_hugging_face || name.ends_with(".pth")) pickles.push_back(name);
  }
  if (!pickles.empty()) {
    throw CheckpointError(
        folder.path(), "",
        "has its weights as pickle, which may run any code when it is read: " +
            listed(pickles),
        "write them as safetensors, in transformers: "
        "from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)");
  }
  throw CheckpointError(
      folder.path(), "",
      text_of("has no ", kSafetensorsFile, " and no ", kSafetensorsIndexFile),
      "give the folder that save_pretrained() wrote");
}

WeightMap parse_index(const std::string& text, const std::string& file) {
  WeightMap files;
  const auto fail = [&](const std::string& name, const std::string& problem) {
    throw CheckpointError(file, name, problem);
  };
  parse_members(text, file, 2, [&](const auto& path, const nlohmann::json& value) {
    if (path.empty() || path.front() != "weight_map") return;
    if (path.size() == 1) {
      if (!value.is_object()) fail("", "has a \"weight_map\" that is no object");
      return;
    }
    if (!value.is_string()) fail(path.back(), "has a file whose name is no text");
    const auto& name = value.get_ref<const std::string&>();
    if (!flaw_of_name(name).empty())
      fail(path.back(),
           "lies in " + printable(name) + ", which names no file of the folder");
    files.emplace(path.back(), name);
  });
  if (files.empty()) fail("", "has no \"weight_map\" that names a tensor");
  return files;
}

std::vector<std::string> files_of(const WeightMap& weight_map) {
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  return {files.begin(), files.end()};
}

// Of the index and its files.
void require_agreement(const WeightMap& missing, const std::vector<std::string>& unknown,
                       const std::string& index) {
  std::string problem;
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, file] : missing) names.push_back(name + " (" + file + ")");
    problem = "names tensors that are not in their files: " + listed(names);
  }
  if (!unknown.empty()) {
    problem += problem.empty() ? "" : "; ";
    problem += "does not name tensors of its files: " + listed(unknown);
  }
  if (problem.empty()) return;
  throw CheckpointError(index, "", problem, "are these files of one model?");
}

void read_or_advise(const std::function<void()>& read) {
  try {
    read();
  } catch (const CheckpointError& error) {
    if (!error.cure().empty()) throw;
    throw CheckpointError(
        error.file(), error.fqn(), error.problem(),
        "copy or download the folder again: its weights are damaged, or "
        "no safetensors of fp32, bf16 or fp16");
  }
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const std::string& folder, const std::string& file,
                                     std::function<bool(const std::string&)> counts)
    : folder_(folder),
      counts_(std::move(counts)),
      bounce_(static_cast<size_t>(kReadBytes)) {
  read_or_advise([&] { read_headers(file); });
}

void SafetensorsFolder::read_headers(const std::string& only_file) {
  if (!only_file.empty() || folder_.has(kSafetensorsFile)) {
    files_ = {only_file.empty() ? kSafetensorsFile : only_file};
    tensors_ = read_header(0);
  } else if (folder_.has(kSafetensorsIndexFile)) {
    read_index();
  } else {
    refuse_without_weights(folder_);
  }
}

SafeTensors SafetensorsFolder::read_header(size_t file) {
  SafeTensors tensors = read_safetensors_header(open(file));
  std::erase_if(tensors, [&](const auto& item) { return !counts_(item.first); });
  return tensors;
}

void SafetensorsFolder::read_index() {
  const std::string index = folder_.path_of(kSafetensorsIndexFile);
  WeightMap missing = parse_index(
      read_text(folder_, kSafetensorsIndexFile, kMaxSafetensorsHeaderBytes), index);
  std::erase_if(missing, [&](const auto& item) { return !counts_(item.first); });
  files_ = files_of(missing);
  require_files();
  std::vector<std::string> unknown;
  for (size_t i = 0; i < files_.size(); ++i) {
    for (auto& [name, tensor] : read_header(i)) {
      const auto expected = missing.find(name);
      if (expected == missing.end() || expected->second != files_[i]) {
        unknown.push_back(name + " (" + files_[i] + ")");
        continue;
      }
      missing.erase(expected);
      tensor.file = i;
      tensors_.emplace(name, std::move(tensor));
    }
  }
  require_agreement(missing, unknown, index);
}

void SafetensorsFolder::require_files() const {
  std::vector<std::string> missing;
  for (const auto& file : files_)
    if (!folder_.has(file)) missing.push_back(file);
  if (missing.empty()) return;
  throw CheckpointError(
      folder_.path(), "",
      text_of("lacks files that ", kSafetensorsIndexFile, " names: ") + listed(missing),
      "was a download cut off?");
}

const File& SafetensorsFolder::open(size_t file) {
  if (!file_ || open_file_ != file) {
    file_.emplace(folder_.open(files_.at(file)));
    open_file_ = file;
    file_->expect_to_be_asked();
    ahead_ = {};
  }
  return *file_;
}

const SafeTensor& SafetensorsFolder::find(const std::string& name, int64_t begin,
                                          int64_t numel) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw CheckpointError(folder_.path(), name, "is not among the model's tensors");
  const SafeTensor& tensor = found->second;
  require_part(folder_.path_of(files_[tensor.file]), name, tensor.numel(), begin, numel,
               "wanted");
  return tensor;
}

void SafetensorsFolder::read_stored(const std::string& name, int64_t begin, int64_t numel,
                                    void* out) {
  const SafeTensor& tensor = find(name, begin, numel);
  const int64_t element_bytes = size_of(tensor.dtype);
  naming(name, [&] {
    open(tensor.file)
        .read(out, static_cast<size_t>(numel * element_bytes),
              tensor.offset + begin * element_bytes);
  });
  note_work(numel * element_bytes);
}

void SafetensorsFolder::read(const std::string& name, int64_t begin,
                             std::span<float> out) {
  const SafeTensor& tensor = find(name, begin, static_cast<int64_t>(out.size()));
  if (!is_floating(tensor.dtype)) {
    throw CheckpointError(folder_.path_of(files_[tensor.file]), name,
                          text_of("is of type ", name_of(tensor.dtype),
                                  ", floating-point values are wanted"),
                          "the folder of the model in fp32, bf16 or fp16");
  }
  naming(name, [&] { read_values(tensor, begin, out); });
}

// What is stored as fp32 goes straight to its place, where that is a good one.
void SafetensorsFolder::read_values(const SafeTensor& tensor, int64_t begin,
                                    std::span<float> out) {
  const File& file = open(tensor.file);
  const int64_t element_bytes = size_of(tensor.dtype);
  const auto piece_numel = static_cast<size_t>(kReadBytes / element_bytes);
  int64_t offset = tensor.offset + begin * element_bytes;
  const int64_t end = offset + static_cast<int64_t>(out.size()) * element_bytes;
  for (size_t done = 0; done < out.size(); done += piece_numel) {
    const auto piece = out.subspan(done, std::min(piece_numel, out.size() - done));
    const size_t bytes = piece.size() * static_cast<size_t>(element_bytes);
    const Range soon = ahead_.before(offset, end);
    file.ask_for(soon.begin, soon.bytes);
    if (tensor.dtype == DType::kFp32 && Buffer::is_good_place(piece.data())) {
      file.read(piece.data(), bytes, offset);
    } else {
      file.read(bounce_.data(), bytes, offset);
      widen(tensor.dtype, bounce_.data(), std::ssize(piece), piece.data());
    }
    note_work(static_cast<int64_t>(bytes));
    offset += static_cast<int64_t>(bytes);
  }
}

}  // namespace zero::checkpoint
