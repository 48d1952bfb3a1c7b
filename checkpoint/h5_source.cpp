#include "checkpoint/h5_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/h5_listing.h"

namespace zero::checkpoint {
namespace {

constexpr char kPlainFile[] = "a file of weights that h5py or another HDF5 has written";

void require_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return;
  if (fs::is_directory(status))
    throw CheckpointError(path, "", "it is a folder, not an HDF5 file",
                          "--init-from takes a checkpoint and a folder of Hugging Face "
                          "as they are");
  throw CheckpointError(
      path, "",
      fs::exists(status) ? "it is neither a file nor a folder" : "there is no such file",
      kPlainFile);
}

H5Handle open_file(const std::string& path) {
  if (const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); file < 0)
    throw CheckpointError(path, "", text_of("it cannot be read: ", std::strerror(errno)),
                          "look at who may read it");
  if (check_h5(H5Fis_hdf5(path.c_str()), "H5Fis_hdf5") == 0)
    throw CheckpointError(path, "", "it is no HDF5 file", kPlainFile);
  const H5Handle access = make_options(H5P_FILE_ACCESS);
  keep_little(access);
  return H5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "H5Fopen");
}

}  // namespace

struct H5Source::Opened {
  std::optional<H5Handle> file;
  std::map<std::string, ListedDataset> listed;
  std::map<std::string, H5Handle> open;  // two at most: they may be read in turn
  std::set<std::string> whole;           // whose chunks have been looked at
  std::vector<char> bounce;

  ~Opened() {
    const H5Turn turn;
    open.clear();
    file.reset();
  }

  hid_t dataset(const std::string& name) {
    if (const auto found = open.find(name); found != open.end()) return found->second;
    if (open.size() > 1) open.clear();
    const auto& [is, place, cache_bytes] = listed.at(name);
    constexpr size_t kSlots = 12421;  // a prime number; each holds one chunk
    const H5Handle access = make_options(H5P_DATASET_ACCESS);
    check_h5(H5Pset_chunk_cache(access, kSlots, cache_bytes, 1), "H5Pset_chunk_cache");
    H5Handle opened(H5Dopen2(*file, place.c_str(), access), H5Dclose, "H5Dopen2");
    if (!whole.contains(name)) require_whole_chunks(opened, is.shape, is.dtype);
    whole.insert(name);
    return open.emplace(name, std::move(opened)).first->second;
  }

  void read(const std::string& name, int64_t begin, int64_t numel, char* out) {
    const TensorType& is = listed.at(name).is;
    const hid_t from = dataset(name);
    const H5Handle type = make_type(is.dtype),
                   space(H5Dget_space(from), H5Sclose, "H5Dget_space");
    // Into memory of as many dimensions: HDF5 copies rows then, and no single values.
    const auto read_selected = [&](const Shape& count) {
      const H5Handle memory = make_space(count);
      check_h5(H5Dread(from, type, memory, space, H5P_DEFAULT, out), "H5Dread");
      out += checked_numel(count).value() * size_of(is.dtype);
    };
    if (is.shape.empty()) return read_selected({1});
    for (const Box& box : boxes_of_range(is.shape, begin, numel)) {
      select(space, box);
      read_selected(box.count);
    }
  }
};

H5Source::H5Source(const std::string& file)
    : path_(file), opened_(std::make_unique<Opened>()) {
  require_file(file);
  const H5Turn turn;
  try {
    opened_->file.emplace(open_file(file));
    opened_->listed = list_datasets(*opened_->file);
  } catch (const CheckpointError& error) {
    opened_->file.reset();
    const bool is_locked = error.problem().find("unable to lock") != std::string::npos;
    throw CheckpointError(file, error.fqn(), error.problem(),
                          is_locked ? "end the program that has it open; or, on a file "
                                      "system without locks, HDF5_USE_FILE_LOCKING=FALSE"
                          : error.cure().empty() ? "copy it again: it is damaged, or was "
                                                   "not written to its end"
                                                 : error.cure());
  }
  for (const auto& [name, listed] : opened_->listed) datasets_[name] = listed.is;
}

H5Source::~H5Source() = default;

void H5Source::read_stored(const std::string& dataset, int64_t begin, int64_t numel,
                           void* out) {
  const std::optional<int64_t> all = checked_numel(datasets_.at(dataset).shape);
  if (begin < 0 || numel < 0 || begin > *all - numel)
    throw CheckpointError(path_, dataset, text_of("it has ", *all, " values alone"));
  if (numel == 0) return;
  const H5Turn turn;
  try {
    opened_->read(dataset, begin, numel, static_cast<char*>(out));
  } catch (const CheckpointError& error) {
    throw CheckpointError(
        path_, dataset, "the values cannot be read: " + error.problem(),
        error.cure().empty() ? "copy the file again: it is damaged" : error.cure());
  }
}

void H5Source::read(const std::string& dataset, int64_t begin, std::span<float> out) {
  constexpr int64_t kPieceBytes = 1 << 20;
  const DType dtype = datasets_.at(dataset).dtype;
  if (!is_floating(dtype))
    throw CheckpointError(path_, dataset, text_of("it holds ", name_of(dtype)),
                          "floating-point values");
  const int64_t most = kPieceBytes / size_of(dtype);
  std::vector<char>& bounce = opened_->bounce;
  bounce.resize(kPieceBytes);
  for (int64_t done = 0; done < static_cast<int64_t>(out.size());) {
    const int64_t count = std::min(most, static_cast<int64_t>(out.size()) - done);
    read_stored(dataset, begin + done, count, bounce.data());
    widen(dtype, bounce.data(), count, out.data() + done);
    done += count;
  }
}

}  // namespace zero::checkpoint
