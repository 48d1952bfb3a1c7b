#include "checkpoint/manifest.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

// What tensors are sorted by.
auto key_of(const StoredTensor& tensor) { return std::tie(tensor.kind, tensor.fqn); }

class Checker {
 public:
  Checker(const Manifest& manifest, const std::string& file)
      : manifest_(manifest), file_(file) {}

  void check() const {
    check_files();
    for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
      const auto& tensor = manifest_.tensors[i];
      check_name(tensor.fqn, file_);
      if (i > 0 && key_of(manifest_.tensors[i - 1]) >= key_of(tensor))
        fail(tensor.fqn, "is listed twice or out of order");
      check_tensor(tensor);
    }
    check_overlaps();
    for (const auto& [alias, fqn] : manifest_.aliases) check_alias(alias, fqn);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const std::string& fqn, const Parts&... problem) const {
    throw CheckpointError(file_, fqn, text_of(problem...));
  }

  // The names are known beforehand, so a manifest cannot point outside its folder.
  void check_files() const {
    const auto& files = manifest_.files;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string expected =
          i == 0 ? kVirtualFile
                 : shard_file(static_cast<int>(i) - 1, manifest_.world_size);
      if (files[i].name != expected) {
        fail("", "lists the file \"", printable(files[i].name), "\" where ", expected,
             " is expected");
      }
    }
    if (files.size() != static_cast<size_t>(manifest_.world_size) + 1) {
      const size_t num_shards = files.empty() ? 0 : files.size() - 1;
      fail("", "lists ", num_shards, " shard files, the world size is ",
           manifest_.world_size);
    }
  }

  void check_tensor(const StoredTensor& tensor) const {
    const auto numel = checked_numel(tensor.shape);
    if (!numel) fail(tensor.fqn, "has the impossible shape ", to_string(tensor.shape));
    int64_t begin = 0;
    for (const auto& piece : tensor.pieces) {
      if (piece.begin != begin) {
        fail(tensor.fqn, "has a piece at element ", piece.begin, " where ", begin,
             " comes next");
      }
      check_piece(tensor, piece, *numel - begin);
      begin += piece.bytes / size_of(tensor.dtype);
    }
    if (begin != *numel) {
      fail(tensor.fqn, "has pieces for ", begin, " of its ", *numel, " elements");
    }
  }

  void check_piece(const StoredTensor& tensor, const Piece& piece,
                   int64_t numel_left) const {
    const FileEntry* file = manifest_.find_file(piece.file);
    if (file == nullptr || piece.file == kVirtualFile) {
      fail(tensor.fqn, "has a piece in \"", printable(piece.file),
           "\", which is no shard of this checkpoint");
    }
    if (is_replicated(tensor.kind) && piece.file != manifest_.files[1].name) {
      fail(tensor.fqn, "is replicated and not in the first shard");
    }
    const int64_t element = size_of(tensor.dtype);
    if (piece.bytes <= 0 || piece.bytes % element != 0 ||
        piece.bytes / element > numel_left) {
      fail(tensor.fqn, "has a piece of ", piece.bytes, " bytes, ", numel_left,
           " elements are left");
    }
    if (piece.offset < 0 || piece.bytes > file->bytes ||
        piece.offset > file->bytes - piece.bytes) {
      fail(tensor.fqn, "has a piece outside of ", piece.file);
    }
    const int64_t num_chunks = (piece.bytes - 1) / kChunkBytes + 1;
    if (std::ssize(piece.hashes) != num_chunks) {
      fail(tensor.fqn, "has ", piece.hashes.size(), " hashes for a piece of ", num_chunks,
           " chunks");
    }
  }

  void check_overlaps() const {
    for (const auto& [file, pieces] : pieces_by_file(manifest_.tensors)) {
      for (size_t i = 1; i < pieces.size(); ++i) {
        const Piece& before = *pieces[i - 1].piece;
        if (before.offset + before.bytes > pieces[i].piece->offset) {
          fail(pieces[i].tensor->fqn, "shares bytes of ", file, " with ",
               pieces[i - 1].tensor->fqn);
        }
      }
    }
  }

  void check_alias(const std::string& alias, const std::string& fqn) const {
    check_name(alias, file_);
    if (manifest_.aliases.contains(fqn) || !manifest_.find(Kind::kParam, fqn)) {
      fail(alias, "is an alias of \"", printable(fqn), "\", which is no parameter");
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

}  // namespace

const StoredTensor* Manifest::find(Kind kind, const std::string& fqn) const {
  const auto key = std::tie(kind, fqn);
  const auto found = std::ranges::lower_bound(tensors, key, {}, key_of);
  if (found != tensors.end() && key_of(*found) == key) return &*found;
  const auto alias = aliases.find(fqn);
  const bool has_alias = alias != aliases.end() && !is_replicated(kind);
  return has_alias && alias->second != fqn ? find(kind, alias->second) : nullptr;
}

// Sorted, because the digits in the names have a fixed width.
const FileEntry* Manifest::find_file(const std::string& name) const {
  const auto found = std::ranges::lower_bound(files, name, {}, &FileEntry::name);
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
    std::ranges::sort(pieces, {},
                      [](const PlacedPiece& placed) { return placed.piece->offset; });
  }
  return files;
}

void check_manifest(const Manifest& manifest, const std::string& file) {
  Checker(manifest, file).check();
}

// A manifest is small beside the values it lists: a hash a MiB, a few hundred bytes a
// tensor, whose place in a shard takes as many. More is not read, since JSON takes ten
// times its size in memory.
int64_t largest_manifest(const Folder& folder) {
  constexpr int64_t kOfAnyCheckpoint = int64_t{4} << 20;
  int64_t bytes = kOfAnyCheckpoint;
  for (const auto& name : folder.names()) {
    if (looks_like_shard(name) && folder.has_file(name))  // others are told as damage
      bytes += folder.size_of(name) / 2;
  }
  return std::min(bytes, kMaxManifestBytes);
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
