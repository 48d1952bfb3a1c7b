#include "checkpoint/format.h"

#include <cassert>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <random>

namespace zero::checkpoint {
namespace {

constexpr std::string_view kTemporaryPrefix = "zero.tmp.";
const std::string kReplaced = "replaced";
constexpr size_t kNonceDigits = 16;

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == text.npos;
}

// "WHAT" of "zero.tmp.WHAT.0123456789abcdef"; nullopt: another name.
std::optional<std::string_view> what_of_temporary(std::string_view name) {
  if (!name.starts_with(kTemporaryPrefix)) return std::nullopt;
  name.remove_prefix(kTemporaryPrefix.size());
  const size_t dot = name.find('.');
  if (dot == name.npos || name.size() != dot + 1 + kNonceDigits) return std::nullopt;
  const std::string_view what = name.substr(0, dot);
  const bool is_ours = consists_of(what, "abcdefghijklmnopqrstuvwxyz0123456789") &&
                       consists_of(name.substr(dot + 1), "0123456789abcdef");
  return is_ours ? std::optional(what) : std::nullopt;
}

}  // namespace

std::string step_folder(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step_%012lld", static_cast<long long>(step));
  return name;
}

std::optional<int64_t> step_of(std::string_view folder) {
  if (!folder.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(folder.data() + std::strlen(kStepPrefix), folder.data() + folder.size(),
                  step);
  // Its own name to the last digit: what is no number is none's.
  return step >= 0 && step_folder(step) == folder ? std::optional(step) : std::nullopt;
}

std::string shard_file(int rank, int world_size) {
  char name[48];
  std::snprintf(name, sizeof(name), "shard_%05d_of_%05d.h5", rank, world_size);
  return name;
}

bool looks_like_shard(std::string_view file) { return file.starts_with("shard_"); }

bool belongs_to_checkpoint(std::string_view file) {
  int rank = 0, world_size = 0;
  const std::string text(file);
  if (std::sscanf(text.c_str(), "shard_%5d_of_%5d.h5", &rank, &world_size) == 2)
    return rank >= 0 && world_size >= 0 && file == shard_file(rank, world_size);
  return file == kManifestFile || file == kVirtualFile || file == kProbeFile;
}

std::string temporary_name(const std::string& what) {
  std::random_device random;
  char nonce[20];
  std::snprintf(nonce, sizeof(nonce), ".%08x%08x", random(), random());
  const std::string name = std::string(kTemporaryPrefix) + what + nonce;
  assert(is_temporary(name));
  return name;
}

bool is_temporary(std::string_view name) { return what_of_temporary(name).has_value(); }

bool is_temporary(std::string_view name, std::string_view what) {
  return what_of_temporary(name) == what;
}

std::string replaced_name(int64_t step) {
  return temporary_name(kReplaced + step_folder(step).substr(std::strlen(kStepPrefix)));
}

std::optional<int64_t> replaced_step_of(std::string_view name) {
  const auto what = what_of_temporary(name);
  if (!what || !what->starts_with(kReplaced)) return std::nullopt;
  return step_of(std::string(kStepPrefix) + std::string(what->substr(kReplaced.size())));
}

}  // namespace zero::checkpoint
