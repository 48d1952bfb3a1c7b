#include "checkpoint/verify.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/text.h"
#include "checkpoint/chunk_reader.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/share_out.h"

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

constexpr size_t kChunksOfAStretch = 16;
constexpr char kAnother[] = "use another checkpoint";

// In the order of the files' bytes, what is between the values behind these.
void add_stretches(const FileEntry& file, const std::vector<PlacedPiece>& pieces,
                   std::vector<Stretch>& all) {
  std::vector<Range> taken;
  for (const auto& placed : pieces) {
    const size_t num_chunks = placed.piece->hashes.size();
    for (size_t i = 0; i < num_chunks; i += kChunksOfAStretch)
      all.push_back({&file, placed, i, std::min(i + kChunksOfAStretch, num_chunks)});
    taken.push_back({placed.piece->offset, placed.piece->bytes});
  }
  all.push_back({.file = &file, .rest = gaps_between(std::move(taken), file.bytes)});
}

// Verifies stretches; one a thread. Each stretch of a file that cannot be opened tells
// so.
class StretchReader {
 public:
  explicit StretchReader(const Folder& folder) : folder_(folder), chunks_(folder) {}

  void verify(Stretch& stretch) {
    const std::string& name = stretch.file->name;
    if (!folder_.has_file(name)) return;  // which is among check_files' findings
    try {
      chunks_.open(name);
    } catch (const CheckpointError& error) {
      stretch.found.damages.push_back(error);
      return;
    }
    if (stretch.placed)
      verify_chunks(stretch);
    else
      verify_rest(stretch);
  }

 private:
  void verify_chunks(Stretch& stretch) {
    const auto& [tensor, piece] = *stretch.placed;
    for (size_t i = stretch.first; i < stretch.last; ++i) {
      try {
        chunks_.read(*tensor, *piece, i, i + 1, nullptr, Audience::kOne);
        stretch.found.num_bytes += chunk_range(*piece, i, i + 1).bytes;
      } catch (const CheckpointError& error) {
        stretch.found.damages.push_back(error);
      }
    }
  }

  void verify_rest(Stretch& stretch) {
    stretch.found.num_files = 1;
    const File& file = chunks_.open(stretch.file->name);
    try {
      if (copy_ranges(file, stretch.rest, nullptr) == stretch.file->hash) {
        for (const auto& range : stretch.rest) stretch.found.num_bytes += range.bytes;
        return;
      }
      stretch.found.damages.push_back({file.path(), "",
                                       "the layout is damaged: the bytes between the "
                                       "values do not have the hash that "
                                       "was recorded",
                                       kAnother});
    } catch (const CheckpointError& error) {
      stretch.found.damages.push_back(error);
    }
  }

  const Folder& folder_;
  ChunkReader chunks_;
};

void verify_stretches(const Folder& folder, std::vector<Stretch>& stretches) {
  share_out(stretches.size(), [&]() -> Worker {
    return [&, reader = std::make_shared<StretchReader>(folder)](size_t job) {
      reader->verify(stretches[job]);
    };
  });
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
