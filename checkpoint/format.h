#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The constants that writer and reader share; FORMAT.md tells the whole.
namespace zero::checkpoint {

constexpr int kFormatVersion = 1;
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // one hash per so many bytes
constexpr int64_t kAlignment = 4096;               // of slices this large or larger
constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;  // larger ones are not read
constexpr int kMaxJsonDepth = 64;
constexpr int kMaxWorldSize = 99999;  // five digits in a file name
constexpr int kMaxDims = 32;          // HDF5's limit
constexpr size_t kMaxNameBytes = 1024;

constexpr char kManifestFile[] = "manifest.json";
constexpr char kVirtualFile[] = "checkpoint.h5";
constexpr char kLatestFile[] = "latest";
constexpr char kLockFile[] = "run.lock";
constexpr char kProbeFile[] = "probe";

// What a tensor is to the run; each kind is an HDF5 group.
enum class Kind { kParam, kExpAvg, kExpAvgSq, kBuffer, kUser };
enum class DType { kFp64, kFp32, kBf16, kFp16, kInt64, kInt32, kUint8, kBool };

constexpr Kind kAllKinds[] = {Kind::kParam, Kind::kExpAvg, Kind::kExpAvgSq, Kind::kBuffer,
                              Kind::kUser};

const char* name_of(Kind kind);    // "params", "exp_avg", "exp_avg_sq", "buffers", "user"
const char* name_of(DType dtype);  // "fp32", "bf16", ...
int64_t size_of(DType dtype);      // bytes of one element
std::optional<Kind> kind_named(std::string_view name);
std::optional<DType> dtype_named(std::string_view name);

// Buffers and user bytes are replicated: rank 0 writes them whole.
inline bool is_replicated(Kind kind) {
  return kind == Kind::kBuffer || kind == Kind::kUser;
}

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
// For a step that another is about to replace.
std::string replaced_name(int64_t step);
std::optional<int64_t> replaced_step_of(std::string_view name);  // nullopt: none

}  // namespace zero::checkpoint
