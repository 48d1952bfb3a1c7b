#include "checkpoint/manifest.h"

#include <algorithm>
#include <tuple>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

bool goes_before(const StoredTensor& a, const StoredTensor& b) {
  return std::tie(a.kind, a.fqn) < std::tie(b.kind, b.fqn);
}

class Checker {
 public:
  Checker(const Manifest& manifest, const std::string& file)
      : manifest_(manifest), file_(file) {}

  void check() const {
    check_files();
    for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
      const auto& tensor = manifest_.tensors[i];
      check_name(tensor.fqn, file_);
      if (i > 0 && !goes_before(manifest_.tensors[i - 1], tensor)) {
        fail(tensor.fqn, "is listed twice or out of order");
      }
      check_tensor(tensor);
    }
    check_overlaps();
    for (const auto& [alias, fqn] : manifest_.aliases) check_alias(alias, fqn);
  }

 private:
  [[noreturn]] void fail(const std::string& fqn, const std::string& problem) const {
    throw CheckpointError(file_, fqn, problem);
  }

  // The names are known beforehand, so a manifest cannot point outside its folder.
  void check_files() const {
    const auto& files = manifest_.files;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string expected =
          i == 0 ? kVirtualFile
                 : shard_file(static_cast<int>(i) - 1, manifest_.world_size);
      if (files[i].name != expected) {
        fail("", "lists the file \"" + printable(files[i].name) + "\" where " + expected +
                     " is expected");
      }
    }
    if (files.size() != static_cast<size_t>(manifest_.world_size) + 1) {
      const size_t num_shards = files.empty() ? 0 : files.size() - 1;
      fail("", "lists " + std::to_string(num_shards) +
                   " shard files, the world size is " +
                   std::to_string(manifest_.world_size));
    }
  }

  void check_tensor(const StoredTensor& tensor) const {
    const auto numel = checked_numel(tensor.shape);
    if (!numel) fail(tensor.fqn, "has the impossible shape " + to_string(tensor.shape));
    int64_t begin = 0;
    for (const auto& piece : tensor.pieces) {
      if (piece.begin != begin) {
        fail(tensor.fqn, "has a piece at element " + std::to_string(piece.begin) +
                             " where " + std::to_string(begin) + " comes next");
      }
      check_piece(tensor, piece, *numel - begin);
      begin += piece.bytes / size_of(tensor.dtype);
    }
    if (begin != *numel) {
      fail(tensor.fqn, "has pieces for " + std::to_string(begin) + " of its " +
                           std::to_string(*numel) + " elements");
    }
  }

  void check_piece(const StoredTensor& tensor, const Piece& piece,
                   int64_t numel_left) const {
    const FileEntry* file = manifest_.find_file(piece.file);
    if (file == nullptr || piece.file == kVirtualFile) {
      fail(tensor.fqn, "has a piece in \"" + printable(piece.file) +
                           "\", which is no shard of this checkpoint");
    }
    if (is_replicated(tensor.kind) && piece.file != manifest_.files[1].name) {
      fail(tensor.fqn, "is replicated and not in the first shard");
    }
    const int64_t element = size_of(tensor.dtype);
    if (piece.bytes <= 0 || piece.bytes % element != 0 ||
        piece.bytes / element > numel_left) {
      fail(tensor.fqn, "has a piece of " + std::to_string(piece.bytes) + " bytes, " +
                           std::to_string(numel_left) + " elements are left");
    }
    if (piece.offset < 0 || piece.bytes > file->bytes ||
        piece.offset > file->bytes - piece.bytes) {
      fail(tensor.fqn, "has a piece outside of " + piece.file);
    }
    const int64_t num_chunks = (piece.bytes - 1) / kChunkBytes + 1;
    if (static_cast<int64_t>(piece.hashes.size()) != num_chunks) {
      fail(tensor.fqn, "has " + std::to_string(piece.hashes.size()) +
                           " hashes for a piece of " + std::to_string(num_chunks) +
                           " chunks");
    }
  }

  void check_overlaps() const {
    for (const auto& [file, pieces] : pieces_by_file(manifest_.tensors)) {
      for (size_t i = 1; i < pieces.size(); ++i) {
        const Piece& before = *pieces[i - 1].piece;
        if (before.offset + before.bytes > pieces[i].piece->offset) {
          fail(pieces[i].tensor->fqn,
               "shares bytes of " + file + " with " + pieces[i - 1].tensor->fqn);
        }
      }
    }
  }

  void check_alias(const std::string& alias, const std::string& fqn) const {
    check_name(alias, file_);
    if (manifest_.aliases.contains(fqn) || !manifest_.find(Kind::kParam, fqn)) {
      fail(alias, "is an alias of \"" + printable(fqn) + "\", which is no parameter");
    }
    const auto check_kind = [&](Kind kind) {
      const StoredTensor* tensor = manifest_.find(kind, alias);
      if (tensor && tensor->fqn == alias) fail(alias, "is an alias and a tensor");
    };
    check_kind(Kind::kParam);
    std::ranges::for_each(kStateKinds, check_kind);
  }

  const Manifest& manifest_;
  const std::string& file_;
};

// A manifest is small beside the values it lists: a hash a MiB, a few hundred bytes a
// tensor, whose place in a shard takes as many. More is not read, since JSON takes ten
// times its size in memory.
int64_t largest_manifest(const Folder& folder) {
  constexpr int64_t kOfAnyCheckpoint = int64_t{4} << 20;
  int64_t bytes = kOfAnyCheckpoint;
  for (const auto& name : folder.names()) {
    if (looks_like_shard(name)) bytes += folder.size_of(name) / 2;
  }
  return std::min(bytes, kMaxManifestBytes);
}

}  // namespace

const StoredTensor* Manifest::find(Kind kind, const std::string& fqn) const {
  const auto key = std::tie(kind, fqn);
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), key,
                                      [](const StoredTensor& tensor, const auto& wanted) {
                                        return std::tie(tensor.kind, tensor.fqn) < wanted;
                                      });
  if (found != tensors.end() && std::tie(found->kind, found->fqn) == key) return &*found;
  const auto alias = aliases.find(fqn);
  const bool has_alias = alias != aliases.end() && !is_replicated(kind);
  return has_alias && alias->second != fqn ? find(kind, alias->second) : nullptr;
}

// Sorted, because the digits in the names have a fixed width.
const FileEntry* Manifest::find_file(const std::string& name) const {
  const auto found =
      std::lower_bound(files.begin(), files.end(), name,
                       [](const FileEntry& file, const std::string& wanted) {
                         return file.name < wanted;
                       });
  return found != files.end() && found->name == name ? &*found : nullptr;
}

std::map<std::string, std::vector<PlacedPiece>> pieces_by_file(
    const std::vector<StoredTensor>& tensors) {
  std::map<std::string, std::vector<PlacedPiece>> files;
  for (const auto& tensor : tensors) {
    for (const auto& piece : tensor.pieces)
      files[piece.file].push_back({&tensor, &piece});
  }
  for (auto& [file, pieces] : files) {
    std::sort(pieces.begin(), pieces.end(),
              [](const PlacedPiece& a, const PlacedPiece& b) {
                return a.piece->offset < b.piece->offset;
              });
  }
  return files;
}

void check_manifest(const Manifest& manifest, const std::string& file) {
  Checker(manifest, file).check();
}

Manifest load_manifest(const Folder& folder) {
  if (!folder.has(kManifestFile)) {
    throw CheckpointError(folder.path_of(kManifestFile), "",
                          "is missing: the checkpoint was never completed",
                          "use another checkpoint");
  }
  return parse_manifest(read_text(folder, kManifestFile, largest_manifest(folder)),
                        folder.path_of(kManifestFile));
}

}  // namespace zero::checkpoint
