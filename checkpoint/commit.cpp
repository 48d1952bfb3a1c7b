#include "checkpoint/commit.h"

#include <cerrno>
#include <filesystem>

#include "checkpoint/copy.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tiling.h"
#include "checkpoint/virtual_file.h"

namespace zero::checkpoint {
namespace {

bool is_complete(const Folder& run, int64_t step) {
  const std::string name = step_folder(step);
  return run.has(name) && flaw_of({step, run.path_of(name)}).empty();
}

void refuse_existing(const Folder& run, int64_t step, Existing existing) {
  if (existing == Existing::kReplace || !is_complete(run, step)) return;
  throw CheckpointError(run.path_of(step_folder(step)), "",
                        "this step has been saved already",
                        "ask for overwriting, or save into another folder");
}

// A shard that rank 0 cannot see is on another machine's disk.
FileEntry seen_shard(const Folder& folder, const ShardReport& report) {
  const std::string name = shard_file(report.rank, report.world_size);
  if (!folder.has(name)) {
    throw CheckpointError(folder.path_of(name), "",
                          "rank " + std::to_string(report.rank) +
                              " wrote it, but it cannot be seen from rank 0",
                          "use a folder that all nodes share");
  }
  const int64_t bytes = folder.size_of(name);
  if (bytes != report.bytes) {
    throw CheckpointError(folder.path_of(name), "",
                          "has " + std::to_string(bytes) + " bytes, rank " +
                              std::to_string(report.rank) + " wrote " +
                              std::to_string(report.bytes));
  }
  return {name, bytes, report.layout_hash};
}

FileEntry write_virtual_file(const Folder& folder, const Manifest& manifest, Io& io) {
  const File image = make_virtual_image(manifest.tensors, manifest.aliases);
  File file = folder.create(kVirtualFile, io);
  const int64_t bytes = image.size_bytes();
  file.announce_size(bytes);
  const uint64_t hash = copy_ranges(image, {{0, bytes}}, file, io);
  file.sync(io);
  return {kVirtualFile, bytes, hash};
}

// Checked before it is written, so that we never write what we would not read.
void write_manifest(const Folder& folder, const Manifest& manifest, Io& io) {
  const std::string text = to_text(manifest);
  const std::string path = folder.path_of(kManifestFile);
  if (static_cast<int64_t>(text.size()) > kMaxManifestBytes) {
    throw CheckpointError(path, "",
                          "would have " + std::to_string(text.size()) +
                              " bytes, the most is " + std::to_string(kMaxManifestBytes));
  }
  parse_manifest(text, path);
  write_text(folder, kManifestFile, text, io);
}

void write_folder(const Folder& folder, const std::vector<ShardReport>& reports,
                  const StepInfo& info, Io& io) {
  Manifest manifest;
  manifest.step = info.step;
  manifest.world_size = static_cast<int>(reports.size());
  manifest.tensors = join_slices(reports);
  manifest.aliases = info.aliases;
  manifest.config = info.config;
  manifest.position = info.position;
  manifest.files.push_back({kVirtualFile, 0, 0});
  for (const auto& report : reports) {
    manifest.files.push_back(seen_shard(folder, report));
  }
  check_manifest(manifest, folder.path_of(kManifestFile));
  manifest.files.front() = write_virtual_file(folder, manifest, io);
  write_manifest(folder, manifest, io);
  folder.sync(io);
}

void rename_in(const Folder& run, const std::string& from, const std::string& to,
               Io& io) {
  if (io.rename(run.descriptor(), from.c_str(), to.c_str()) != 0) {
    throw_errno(run.path_of(from), "rename to " + to, errno);
  }
}

// Without an atomic exchange a complete checkpoint would have to vanish for a moment.
void take_place_of(const Folder& run, const std::string& temporary, int64_t step,
                   Io& io) {
  const std::string name = step_folder(step);
  if (io.exchange(run.descriptor(), temporary.c_str(), name.c_str()) == 0) return;
  const bool is_offered = errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP;
  if (is_offered) throw_errno(run.path_of(name), "exchange with " + temporary, errno);
  if (is_complete(run, step)) {
    throw CheckpointError(run.path_of(name), "",
                          "cannot be replaced safely: this file system does not exchange "
                          "two folders in one step",
                          "remove it first, or save into another folder");
  }
  rename_in(run, name, temporary_name("damaged"), io);
  rename_in(run, temporary, name, io);
}

// Only a hint for people and scripts: failing to leave it does not undo a checkpoint.
void leave_hint(const Folder& run, const std::string& step, Io& io) {
  try {
    const std::string temporary = temporary_name(kLatestFile);
    write_text(run, temporary, step + "\n", io);
    rename_in(run, temporary, kLatestFile, io);
  } catch (const CheckpointError&) {
  }
}

void make_folder(const Folder& parent, const std::string& name, Io& io) {
  if (io.mkdir(parent.descriptor(), name.c_str()) == 0) return;
  throw_errno(parent.path_of(name), "create the folder", errno);
}

// With the folders above it, each durable in its parent.
void make_run_folder(const std::string& path, Io& io) {
  std::error_code error;
  const auto [above, name] = split_path(path);
  if (std::filesystem::exists(path, error) || above == path) return;
  make_run_folder(above, io);
  const Folder parent(above);
  make_folder(parent, name, io);
  parent.sync(io);
}

}  // namespace

std::string prepare(const std::string& run, int64_t step, Existing existing, Io& io) {
  make_run_folder(run, io);
  const Folder folder(run);
  refuse_existing(folder, step, existing);
  const std::string name = temporary_name(step_folder(step).substr(5));
  make_folder(folder, name, io);
  return folder.path_of(name);
}

void probe_writable(const std::string& run, Io& io) {
  const std::string folder = prepare(run, 0, Existing::kReplace, io);
  try {
    write_text(Folder(folder), "probe", "can this be written?\n", io);
  } catch (const CheckpointError&) {
    discard(folder, io);
    throw;
  }
  discard(folder, io);
}

std::string commit(const std::string& run, const std::string& temporary,
                   const std::vector<ShardReport>& reports, const StepInfo& info,
                   Existing existing, Io& io) {
  const Folder folder(run);
  const std::string name = split_path(temporary).name;
  const std::string step = step_folder(info.step);
  refuse_existing(folder, info.step, existing);
  write_folder(folder.subfolder(name), reports, info, io);
  const bool is_replacing = folder.has(step);
  if (is_replacing) {
    take_place_of(folder, name, info.step, io);
  } else {
    rename_in(folder, name, step, io);
  }
  folder.sync(io);
  if (is_replacing) discard(temporary, io);  // the old one has this name now
  leave_hint(folder, step, io);
  return folder.path_of(step);
}

void discard(const std::string& temporary, Io& io) noexcept {
  try {
    const auto [run, name] = split_path(temporary);
    const Folder folder(run);
    if (name.starts_with(kTemporaryPrefix) && folder.has(name)) folder.remove(name, io);
  } catch (const std::exception&) {
  }
}

}  // namespace zero::checkpoint
