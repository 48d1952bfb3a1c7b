#include "checkpoint/inventory.h"

#include <algorithm>

#include "checkpoint/error.h"

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

std::string to_string(const Damage& damage) {
  return CheckpointError(damage.file, damage.fqn, damage.problem).what();
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

}  // namespace zero::checkpoint
