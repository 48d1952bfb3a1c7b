#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The constants and names that writer and reader share; FORMAT.md tells the whole.
namespace zero::checkpoint {

constexpr int kFormatVersion = 2;                  // that is written
constexpr int kOldestVersion = 1;                  // that is still read
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // one hash per so many bytes
constexpr int64_t kAlignment = 4096;               // of slices this large or larger
constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;  // larger ones are not read
constexpr int kMaxJsonDepth = 64;
constexpr int kMaxWorldSize = 99999;  // five digits in a file name
constexpr int kMaxDims = 32;          // HDF5's limit

constexpr char kManifestFile[] = "manifest.json";
constexpr char kVirtualFile[] = "checkpoint.h5";
constexpr char kLatestFile[] = "latest";
constexpr char kBestFile[] = "best";
constexpr char kLockFile[] = "run.lock";
constexpr char kProbeFile[] = "probe";
constexpr char kStepPrefix[] = "step_";

std::string step_folder(int64_t step);                    // "step_000000000100"
std::optional<int64_t> step_of(std::string_view folder);  // nullopt: another name
std::string shard_file(int rank, int world_size);         // "shard_00000_of_00004.h5"
bool looks_like_shard(std::string_view file);             // "shard_*"
// A file that a checkpoint of ours has, or one of prepare()'s folders.
bool belongs_to_checkpoint(std::string_view file);

// Names that nobody else gives, for what is being made or removed:
// "zero.tmp.WHAT.<16 hexadecimal digits>", `what` of lower-case letters and digits.
std::string temporary_name(const std::string& what);
bool is_temporary(std::string_view name);
bool is_temporary(std::string_view name, std::string_view what);  // of that WHAT
// For a step that another is about to replace.
std::string replaced_name(int64_t step);
std::optional<int64_t> replaced_step_of(std::string_view name);  // nullopt: none

}  // namespace zero::checkpoint
