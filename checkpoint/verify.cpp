#include "checkpoint/verify.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "checkpoint/buffer.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/reader.h"

namespace zero::checkpoint {
namespace {

// What one thread reads at a stretch: some chunks of a piece, or what is in no piece.
struct Stretch {
  const FileEntry* file = nullptr;
  std::optional<PlacedPiece> placed = {};
  size_t first = 0, last = 0;  // chunks [first, last)
  std::vector<Range> rest = {};
  VerifyReport found = {};
};

constexpr size_t kChunksAtOnce = 16;
constexpr char kAnother[] = "use another checkpoint";

// In the order of the files' bytes, what is between the values behind these.
void add_stretches(const FileEntry& file, const std::vector<PlacedPiece>& pieces,
                   std::vector<Stretch>& all) {
  std::vector<Range> taken;
  for (const auto& placed : pieces) {
    const size_t num_chunks = placed.piece->hashes.size();
    for (size_t i = 0; i < num_chunks; i += kChunksAtOnce)
      all.push_back({&file, placed, i, std::min(i + kChunksAtOnce, num_chunks)});
    taken.push_back({placed.piece->offset, placed.piece->bytes});
  }
  all.push_back({.file = &file, .rest = gaps_between(std::move(taken), file.bytes)});
}

// Takes stretches until there are none, beside others that do so. Holds one file open.
class Worker {
 public:
  Worker(const Folder& folder, std::vector<Stretch>& stretches, std::atomic<size_t>& next)
      : folder_(folder), stretches_(stretches), next_(next) {}

  void run() {
    while (true) {
      const size_t mine = next_++;
      if (mine >= stretches_.size()) return;
      verify(stretches_[mine]);
    }
  }

 private:
  // Each stretch of a file that cannot be opened tells so.
  void verify(Stretch& stretch) {
    try {
      if (!open(*stretch.file)) return;
    } catch (const CheckpointError& error) {
      stretch.found.damages.push_back(error);
      return;
    }
    if (stretch.placed)
      verify_chunks(stretch);
    else
      verify_rest(stretch);
  }

  // False: there is no such regular file, which is among check_files' findings.
  bool open(const FileEntry& file) {
    if (opened_ == &file) return true;
    opened_ = nullptr;
    if (!folder_.has_file(file.name)) return false;
    file_.emplace(folder_.open(file.name));
    opened_ = &file;
    return true;
  }

  void verify_chunks(Stretch& stretch) {
    const auto& [tensor, piece] = *stretch.placed;
    const Range begin = chunk_range(*piece, stretch.first);
    const Range end = chunk_range(*piece, stretch.last - 1);
    file_->ask_for(begin.begin, end.begin + end.bytes - begin.begin);
    for (size_t i = stretch.first; i < stretch.last; ++i) {
      try {
        read_chunk(*file_, *tensor, *piece, i, chunk_.data());
        stretch.found.num_bytes += chunk_range(*piece, i).bytes;
      } catch (const CheckpointError& error) {
        stretch.found.damages.push_back(error);
      }
    }
  }

  void verify_rest(Stretch& stretch) {
    stretch.found.num_files = 1;
    try {
      if (hash_ranges(*file_, stretch.rest) == stretch.file->hash) {
        for (const auto& range : stretch.rest) stretch.found.num_bytes += range.bytes;
        return;
      }
      stretch.found.damages.push_back({file_->path(), "",
                                       "the layout is damaged: the bytes between the "
                                       "values do not have the hash that "
                                       "was recorded",
                                       kAnother});
    } catch (const CheckpointError& error) {
      stretch.found.damages.push_back(error);
    }
  }

  const Folder& folder_;
  std::vector<Stretch>& stretches_;
  std::atomic<size_t>& next_;
  const FileEntry* opened_ = nullptr;
  std::optional<File> file_;
  Buffer chunk_{kChunkBytes};
};

// As many threads as there are cores: hashing takes as long as reading what is in memory.
// Where the system gives fewer, these do the work.
void verify_stretches(const Folder& folder, std::vector<Stretch>& stretches) {
  constexpr unsigned kFewest = 2, kMost = 16;
  std::atomic<size_t> next = 0;
  const auto work = [&] { Worker(folder, stretches, next).run(); };
  std::vector<std::future<void>> others;
  try {
    for (unsigned i = std::clamp(std::thread::hardware_concurrency(), kFewest, kMost);
         i > 1; --i)
      others.push_back(std::async(std::launch::async, work));
  } catch (const std::system_error&) {
    // no more threads
  }
  work();
  for (auto& other : others) other.get();
}

}  // namespace

std::vector<CheckpointError> check_files(const Folder& folder, const Manifest& manifest) {
  std::vector<CheckpointError> damages;
  const auto step = step_of(split_path(folder.path()).name);
  if (step && *step != manifest.step) {
    damages.push_back(
        {folder.path_of(kManifestFile), "",
         text_of("is of step ", manifest.step, ", which is not the folder's"),
         "give the folder its own name back"});
  }
  for (const auto& file : manifest.files) {
    try {
      const int64_t bytes = folder.size_of(file.name);
      if (bytes == file.bytes) continue;
      damages.push_back({folder.path_of(file.name), "",
                         text_of("has ", bytes, " bytes, the manifest says ", file.bytes),
                         kAnother});
    } catch (const CheckpointError& error) {
      damages.push_back({error.file(), "", error.problem(), kAnother});
    }
  }
  for (const auto& name : folder.names()) {
    if (looks_like_shard(name) && manifest.find_file(name) == nullptr) {
      damages.push_back({folder.path_of(name), "",
                         text_of("does not belong here: the manifest lists ",
                                 manifest.world_size, " shards without it"),
                         kAnother});
    }
  }
  return damages;
}

VerifyReport verify(const std::string& folder) {
  const Folder opened(folder);
  VerifyReport report;
  try {
    const Manifest manifest = load_manifest(opened);
    report.num_files = 1;
    report.num_bytes = opened.size_of(kManifestFile);
    report.damages = check_files(opened, manifest);
    auto pieces = pieces_by_file(manifest.tensors);
    std::vector<Stretch> stretches;
    for (const auto& file : manifest.files)
      add_stretches(file, pieces[file.name], stretches);
    verify_stretches(opened, stretches);
    std::set<std::string> told;  // each stretch of a file tells why it cannot be opened
    for (const auto& [file, placed, first, last, rest, found] : stretches) {
      report.num_files += found.num_files;
      report.num_bytes += found.num_bytes;
      for (const CheckpointError& damage : found.damages) {
        if (told.insert(damage.what()).second) report.damages.push_back(damage);
      }
    }
  } catch (const CheckpointError& error) {
    report.damages.push_back(error);
  }
  return report;
}

}  // namespace zero::checkpoint
