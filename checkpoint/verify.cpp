#include "checkpoint/verify.h"

#include <algorithm>
#include <map>

#include "checkpoint/chunk.h"
#include "checkpoint/copy.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

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
    const TensorEntry* tensor;
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
