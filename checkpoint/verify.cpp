#include "checkpoint/verify.h"

#include <algorithm>
#include <map>

#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/reader.h"

namespace zero::checkpoint {
namespace {

void check_size(const Folder& folder, const FileEntry& file,
                std::vector<Damage>& damages) {
  try {
    const int64_t bytes = folder.size_of(file.name);
    if (bytes == file.bytes) return;
    damages.push_back({folder.path_of(file.name), "",
                       "has " + std::to_string(bytes) + " bytes, the manifest says " +
                           std::to_string(file.bytes)});
  } catch (const CheckpointError& error) {
    damages.push_back({error.file(), "", error.problem()});
  }
}

class Verifier {
 public:
  Verifier(const Folder& folder, const Manifest& manifest, VerifyReport& report)
      : folder_(folder), manifest_(manifest), report_(report), chunk_(kChunkBytes) {}

  void check() {
    report_.damages = check_files(folder_, manifest_);
    for (const auto& tensor : manifest_.tensors) {
      for (const auto& piece : tensor.pieces) {
        placed_[piece.file].push_back({&tensor, &piece});
      }
    }
    for (const auto& file : manifest_.files) check_file(file);
  }

 private:
  struct Placed {
    const StoredTensor* tensor;
    const Piece* piece;
  };

  // A file that cannot be opened is among check_files' findings, or gets its own here.
  void check_file(const FileEntry& entry) {
    if (!folder_.has(entry.name)) return;
    ++report_.num_files;
    try {
      const File file = folder_.open(entry.name);
      auto& pieces = placed_[entry.name];
      std::sort(pieces.begin(), pieces.end(), [](const Placed& a, const Placed& b) {
        return a.piece->offset < b.piece->offset;  // the disk likes one direction
      });
      std::vector<Range> taken;
      for (const auto& placed : pieces) {
        check_piece(file, placed);
        taken.push_back({placed.piece->offset, placed.piece->bytes});
      }
      check_rest(file, entry, gaps_between(std::move(taken), entry.bytes));
    } catch (const CheckpointError& error) {
      add(error);
    }
  }

  void check_piece(const File& file, const Placed& placed) {
    for (size_t i = 0; i < placed.piece->hashes.size(); ++i) {
      try {
        read_chunk(file, *placed.tensor, *placed.piece, i, chunk_.data());
        report_.num_bytes += chunk_range(*placed.piece, i).bytes;
      } catch (const CheckpointError& error) {
        add(error);
      }
    }
  }

  void check_rest(const File& file, const FileEntry& entry,
                  const std::vector<Range>& rest) {
    if (hash_ranges(file, rest) != entry.hash) {
      report_.damages.push_back({file.path(), "",
                                 "the layout is damaged: the bytes between the values do "
                                 "not have the hash that was recorded"});
      return;
    }
    for (const auto& range : rest) report_.num_bytes += range.bytes;
  }

  void add(const CheckpointError& error) {
    report_.damages.push_back({error.file(), error.fqn(), error.problem()});
  }

  const Folder& folder_;
  const Manifest& manifest_;
  VerifyReport& report_;
  std::map<std::string, std::vector<Placed>> placed_;
  std::vector<char> chunk_;
};

}  // namespace

std::string to_string(const Damage& damage) {
  return CheckpointError(damage.file, damage.fqn, damage.problem).what();
}

std::vector<Damage> check_files(const Folder& folder, const Manifest& manifest) {
  std::vector<Damage> damages;
  for (const auto& file : manifest.files) check_size(folder, file, damages);
  for (const auto& name : folder.names()) {
    if (looks_like_shard(name) && manifest.find_file(name) == nullptr) {
      damages.push_back({folder.path_of(name), "",
                         "does not belong here: the manifest lists " +
                             std::to_string(manifest.world_size) + " shards without it"});
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
    Verifier(opened, manifest, report).check();
  } catch (const CheckpointError& error) {
    report.damages.push_back({error.file(), error.fqn(), error.problem()});
  }
  return report;
}

}  // namespace zero::checkpoint
