#include "checkpoint/commit.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "checkpoint/h5_files.h"
#include "checkpoint/own_files.h"
#include "checkpoint/ranges.h"
#include "checkpoint/slices.h"

namespace zero::checkpoint {
namespace {

// A checkpoint of ours, be it damaged or still empty.
bool may_be_replaced(const Folder& run, const std::string& name) {
  if (!run.has_folder(name)) return false;
  const auto files = run.subfolder(name).names();
  return files.empty() || std::ranges::any_of(files, belongs_to_checkpoint);
}

[[noreturn]] void refuse_to_replace(const Folder& run, const std::string& step) {
  throw CheckpointError(run.path_of(step), "",
                        "is no folder of this run's, and stays as it is",
                        "move it away: the checkpoint of this step needs the name");
}

void refuse_existing(const Folder& run, int64_t step, Existing existing) {
  const std::string name = step_folder(step);
  if (run.has(name) && !may_be_replaced(run, name)) refuse_to_replace(run, name);
  if (existing == Existing::kReplace || !run.has(name)) return;
  if (!flaw_of(run, step).empty()) return;
  throw CheckpointError(run.path_of(name), "", "this step has been saved already",
                        "ask for overwriting, or save into another folder");
}

// A shard that rank 0 cannot see is on another machine's disk.
void require_seen(const Folder& folder, const ShardReport& report) {
  const std::string path = folder.path_of(report.file.name);
  const std::string rank = text_of("rank ", report.rank);
  if (!folder.has(report.file.name)) {
    throw CheckpointError(path, "", rank + " wrote it, but it cannot be seen from rank 0",
                          "use a folder that all nodes share");
  }
  const int64_t bytes = folder.size_of(report.file.name);
  if (bytes == report.file.bytes) return;
  throw CheckpointError(
      path, "", text_of("has ", bytes, " bytes, ", rank, " wrote ", report.file.bytes));
}

FileEntry write_virtual_file(const Folder& folder, const Manifest& manifest, Io& io) {
  const auto image = of_file(folder.path_of(kVirtualFile), [&] {
    return make_virtual_image(manifest.tensors, manifest.aliases);
  });
  File file = folder.create(kVirtualFile, io);
  const int64_t bytes = image->size_bytes();
  file.announce_size(bytes);
  const uint64_t hash = copy_ranges(*image, {{0, bytes}}, &file, io);
  file.sync(io);
  return {kVirtualFile, bytes, hash};
}

// Checked before it is written, so that we never write what we would not read.
void write_manifest(const Folder& folder, const Manifest& manifest, Io& io) {
  const std::string text = to_text(manifest);
  const std::string path = folder.path_of(kManifestFile);
  if (const int64_t most = largest_manifest(folder); std::ssize(text) > most)
    throw CheckpointError(
        path, "", text_of("would have ", text.size(), " bytes, the most is ", most),
        "less in the caller's own texts, such as the data's position");
  parse_manifest(text, path);
  write_text(folder, kManifestFile, text, io);
}

void write_folder(const Folder& folder, const std::vector<ShardReport>& reports,
                  const StepInfo& info, Io& io) {
  const auto world_size = static_cast<int>(reports.size());
  Manifest manifest{info, world_size, {{kVirtualFile, 0, 0}}, join_slices(reports)};
  for (const auto& report : reports) {
    require_seen(folder, report);
    manifest.files.push_back(report.file);
  }
  check_manifest(manifest, folder.path_of(kManifestFile));
  manifest.files.front() = write_virtual_file(folder, manifest, io);
  write_manifest(folder, manifest, io);
  folder.sync(io);
}

// The names of a step's folders while a new one gets the step's own.
class Naming {
 public:
  Naming(const OpenRun& run, std::string temporary, int64_t step)
      : run_(run),
        temporary_(std::move(temporary)),
        name_(step_folder(step)),
        aside_(replaced_name(step)) {}

  // Returns the name that the old one has now; "": there is none. Without an atomic
  // exchange it is nowhere for a moment: a kill just then leaves it under a name from
  // which tidy() brings it back. Throws where somebody has put something else into its
  // place at the last moment.
  std::string make_durable() {
    const Folder& folder = run_.folder();
    const bool replaces = folder.has(name_);
    run_.check();
    is_exchanged_ = replaces && exchange_ours(folder, temporary_, name_, run_.io());
    if (replaces && !is_exchanged_) run_.rename(name_, aside_);
    const std::string old = is_exchanged_ ? temporary_ : replaces ? aside_ : "";
    if (replaces && !may_be_replaced(folder, old)) refuse_to_replace(folder, name_);
    if (!is_exchanged_) run_.rename(temporary_, name_);
    folder.sync(run_.io());
    return old;
  }

  // Of what was begun. False: it failed.
  bool undo() noexcept {
    try {
      const Folder& folder = run_.folder();
      if (is_exchanged_) return exchange_ours(folder, temporary_, name_, run_.io());
      if (!folder.has(temporary_)) run_.rename(name_, temporary_);
      if (folder.has(aside_) && !folder.has(name_)) run_.rename(aside_, name_);
      return true;
    } catch (const CheckpointError&) {
      return false;
    }
  }

 private:
  const OpenRun& run_;
  const std::string temporary_, name_, aside_;
  bool is_exchanged_ = false;
};

void write_hint(const OpenRun& run, const char* file, const std::string& step) {
  replace_text(run.folder(), file, step + "\n", kStepPrefix, run.io());
}

// Only a hint for people and scripts: failing to leave it does not undo a checkpoint.
// Where people have a `latest` of their own, it stays.
void leave_hint(const OpenRun& run, const std::string& step) {
  try {
    write_hint(run, kLatestFile, step);
  } catch (const CheckpointError&) {
  }
}

}  // namespace

static std::string make_temporary(const OpenRun& run, int64_t step) {
  run.check();
  const Folder& folder = run.folder();
  const std::string name = temporary_name(step_folder(step).substr(5));
  if (run.io().mkdir(folder.descriptor(), name.c_str()) != 0)
    throw_errno(folder.path_of(name), "create the folder", errno);
  return folder.path_of(name);
}

std::string prepare(const OpenRun& run, int64_t step, Existing existing) {
  refuse_existing(run.folder(), step, existing);
  return make_temporary(run, step);
}

void probe_writable(const OpenRun& run) {
  const std::string path = make_temporary(run, 0);
  try {
    const Folder folder = run.folder().subfolder(split_path(path).name);
    write_text(folder, kProbeFile, "can this be written?\n", run.io());
  } catch (const CheckpointError&) {
    discard(run, path);
    throw;
  }
  discard(run, path);
}

std::string commit(const OpenRun& run, std::string& temporary,
                   const std::vector<ShardReport>& reports, const StepInfo& info,
                   Existing existing) {
  const Folder& folder = run.folder();
  const std::string name = split_path(temporary).name;
  const std::string step = step_folder(info.step);
  run.check();
  write_folder(folder.subfolder(name), reports, info, run.io());
  refuse_existing(folder, info.step, existing);  // what came while all that was written
  Naming naming(run, name, info.step);
  std::string old;
  try {
    old = naming.make_durable();
  } catch (const CheckpointError&) {
    if (!naming.undo()) temporary.clear();
    throw;
  }
  if (!old.empty()) discard(run, old);
  leave_hint(run, step);
  return folder.path_of(step);
}

bool has_hint(const OpenRun& run, int64_t step) {
  constexpr int64_t kMaxHintBytes = 256;
  try {
    return read_text(run.folder(), kLatestFile, kMaxHintBytes) ==
           step_folder(step) + "\n";
  } catch (const CheckpointError&) {
    return false;
  }
}

void name_best(const OpenRun& run, int64_t step) {
  run.check();
  write_hint(run, kBestFile, step_folder(step));
}

void discard(const OpenRun& run, const std::string& temporary) noexcept {
  try {
    const std::string name = split_path(temporary).name;
    if (is_temporary(name) && run.folder().has_folder(name)) run.remove(name);
  } catch (const std::exception&) {
  }
}

}  // namespace zero::checkpoint
