#include "checkpoint/verify.h"

#include <algorithm>

#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/reader.h"

namespace zero::checkpoint {
namespace {

void add(const CheckpointError& error, VerifyReport& report) {
  report.damages.push_back({error.file(), error.fqn(), error.problem(), error.cure()});
}

void verify_piece(const File& file, const PlacedPiece& placed, VerifyReport& report) {
  const int64_t bytes = std::min(kChunkBytes, placed.piece->bytes);
  std::vector<char> chunk(static_cast<size_t>(bytes));
  for (size_t i = 0; i < placed.piece->hashes.size(); ++i) {
    try {
      read_chunk(file, *placed.tensor, *placed.piece, i, chunk.data());
      report.num_bytes += chunk_range(*placed.piece, i).bytes;
    } catch (const CheckpointError& error) {
      add(error, report);
    }
  }
}

void verify_rest(const File& file, const FileEntry& entry, const std::vector<Range>& rest,
                 VerifyReport& report) {
  if (hash_ranges(file, rest) != entry.hash) {
    report.damages.push_back({file.path(), "",
                              "the layout is damaged: the bytes between the values do "
                              "not have the hash that was recorded"});
    return;
  }
  for (const auto& range : rest) report.num_bytes += range.bytes;
}

// A file that cannot be opened is among check_files' findings, or gets its own here.
void verify_file(const Folder& folder, const FileEntry& entry,
                 const std::vector<PlacedPiece>& pieces, VerifyReport& report) {
  if (!folder.has(entry.name)) return;
  ++report.num_files;
  try {
    const File file = folder.open(entry.name);
    std::vector<Range> taken;
    for (const auto& placed : pieces) {
      verify_piece(file, placed, report);
      taken.push_back({placed.piece->offset, placed.piece->bytes});
    }
    verify_rest(file, entry, gaps_between(std::move(taken), entry.bytes), report);
  } catch (const CheckpointError& error) {
    add(error, report);
  }
}

}  // namespace

std::string to_string(const Damage& damage) {
  return CheckpointError(damage.file, damage.fqn, damage.problem).what();
}

std::vector<Damage> check_files(const Folder& folder, const Manifest& manifest) {
  std::vector<Damage> damages;
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
      damages.push_back(
          {folder.path_of(file.name), "",
           text_of("has ", bytes, " bytes, the manifest says ", file.bytes)});
    } catch (const CheckpointError& error) {
      damages.push_back({error.file(), "", error.problem()});
    }
  }
  for (const auto& name : folder.names()) {
    if (looks_like_shard(name) && manifest.find_file(name) == nullptr) {
      damages.push_back({folder.path_of(name), "",
                         text_of("does not belong here: the manifest lists ",
                                 manifest.world_size, " shards without it")});
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
    for (const auto& file : manifest.files)
      verify_file(opened, file, pieces[file.name], report);
  } catch (const CheckpointError& error) {
    add(error, report);
  }
  return report;
}

}  // namespace zero::checkpoint
