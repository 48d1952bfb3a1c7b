#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/io.h"
#include "checkpoint/own_files.h"
#include "launcher/doctor/finding.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 8 * kMiB, kMostBytes = 256 * kMiB;
constexpr double kWritePatience = 2;  // seconds

fs::path nearest_folder(const std::string& out) {
  fs::path folder = fs::absolute(out.empty() ? "." : out).lexically_normal();
  std::error_code ignored;
  while (!fs::is_directory(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

// Nothing that a disk could make smaller.
std::vector<uint64_t> noise() {
  std::vector<uint64_t> values(kBlockBytes / sizeof(uint64_t));
  std::ranges::generate(values, std::mt19937_64(1));
  return values;
}

void measure(const fs::path& path, DiskFacts& facts) {
  checkpoint::Io& io = checkpoint::system_io();
  const checkpoint::Folder folder(path);
  const std::string name = checkpoint::temporary_name("doctor");
  checkpoint::File file = folder.create(name, io);
  checkpoint::discard_file(folder, name, io);
  std::vector<uint64_t> piece = noise();
  const int64_t most = std::min(kMostBytes, facts.free / 4);
  while (facts.bytes + kBlockBytes <= most && facts.write_seconds < kWritePatience) {
    facts.write_seconds += seconds_of([&] {
      file.write(piece.data(), kBlockBytes, facts.bytes, io);
      file.sync(io);
    });
    facts.bytes += kBlockBytes;
  }
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  facts.read_seconds = seconds_of([&] {
    for (int64_t at = 0; at < facts.bytes; at += kBlockBytes)
      file.read(piece.data(), kBlockBytes, at);
  });
}

Finding judge_kind(const DiskFacts& facts) {
  const std::string& kind = facts.kind;
  if (kind == "tmpfs" || kind == "ramfs")
    return {Mark::kNote, "kind", kind + ": it is memory, and gone at the next start",
            "--out DIR: on a disk"};
  if (kind == "overlay")
    return {Mark::kNote, "kind", kind + ": a container's own layer goes with it",
            "--out DIR: in a folder that is mounted from outside (docker -v)"};
  if (kind == "nfs" || kind == "cifs" || kind == "smb2")
    return {
        Mark::kNote, "kind", kind + ": other hosts see it; slow for small files",
        "nothing if hosts are to share it; HDF5_USE_FILE_LOCKING=FALSE for tools that "
        "cannot lock there"};
  return {Mark::kOk, "kind", kind};
}

// 12 bytes a parameter: AdamW's masters and moments. Two checkpoints are kept, and a
// third one is written beside them.
Finding judge_room(const DiskFacts& facts) {
  constexpr double kBytesOfParameter = 3 * 12;
  const Row numbers = {{"free", facts.free}, {"total", facts.total}};
  const std::string text =
      fmt::format("{} free of {}: with --keep 2 a model of {} parameters",
                  short_bytes(facts.free), short_bytes(facts.total),
                  short_count(static_cast<double>(facts.free) / kBytesOfParameter));
  const std::string cure = "remove what nobody needs, or --out DIR on another disk";
  if (facts.free < kGiB / 4) return {Mark::kBad, "room", text, cure, numbers};
  if (facts.free < 10 * kGiB) return {Mark::kNote, "room", text, cure, numbers};
  return {Mark::kOk, "room", text, "", numbers};
}

Finding judge_speed(const DiskFacts& facts) {
  if (!facts.problem.empty())
    return {Mark::kBad, "writing", facts.problem,
            "--out DIR: a folder that this user may write, on a disk with room"};
  if (facts.bytes == 0)
    return {Mark::kNote, "speed", "not measured: there is no room",
            "`zero_launch bench checkpoint` measures it, where there is some"};
  const auto rate = [&](double seconds) {
    return static_cast<double>(facts.bytes) / 1e9 / std::max(seconds, 1e-9);
  };
  const double written = rate(facts.write_seconds), read = rate(facts.read_seconds);
  const std::string text =
      fmt::format("{:.2g} GB/s written with fsync, {:.2g} GB/s read ({}{})", written,
                  read, short_bytes(facts.bytes),
                  facts.is_there ? "" : ", in the nearest folder that is there");
  const Row numbers = {{"write_gb_per_s", written}, {"read_gb_per_s", read}};
  constexpr double kSlow = 0.1;
  if (written < kSlow)
    return {Mark::kNote, "speed", text + ": slow",
            "a disk of this host (--out DIR), or fewer saves (--save-every 1h)", numbers};
  return {Mark::kOk, "speed", text, "", numbers};
}

}  // namespace

DiskFacts read_disk(const std::string& out) {
  DiskFacts facts;
  const fs::path folder = nearest_folder(out);
  std::error_code ignored;
  facts.is_there = fs::is_directory(out.empty() ? "." : out, ignored);
  if (!facts.is_there && fs::exists(out, ignored))
    facts.problem = "--out names a file, not a folder";
  struct statfs status {};
  if (statfs(folder.c_str(), &status) == 0) {
    facts.kind = kind_of_file_system(static_cast<int64_t>(status.f_type));
    facts.free = static_cast<int64_t>(status.f_bavail) * status.f_bsize;
    facts.total = static_cast<int64_t>(status.f_blocks) * status.f_bsize;
  }
  if (!facts.problem.empty()) return facts;
  try {
    measure(folder, facts);
  } catch (const checkpoint::CheckpointError& error) {
    facts.problem = error.problem();
  }
  return facts;
}

Findings judge(const DiskFacts& facts) {
  return {judge_kind(facts), judge_room(facts), judge_speed(facts)};
}

std::string kind_of_file_system(int64_t number) {
  static const std::map<uint32_t, std::string> names = {
      {0xEF53, "ext4"},        {0x58465342, "xfs"},    {0x9123683E, "btrfs"},
      {0x2FC12FC1, "zfs"},     {0x01021994, "tmpfs"},  {0x858458F6, "ramfs"},
      {0x794C7630, "overlay"}, {0x6969, "nfs"},        {0xFF534D42, "cifs"},
      {0xFE534D42, "smb2"},    {0x0BD00BD0, "lustre"}, {0x47504653, "gpfs"},
      {0x19830326, "beegfs"},  {0x00C36400, "ceph"},   {0x65735546, "fuse"},
      {0x01021997, "9p"},      {0xF2F52010, "f2fs"}};
  const auto found = names.find(static_cast<uint32_t>(number));
  return found == names.end() ? fmt::format("kind {:#x}", number) : found->second;
}

}  // namespace zero::launcher
