#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "checkpoint/io.h"

namespace zero::checkpoint {

// A regular file, by position: no cursor, no buffer. Owns its descriptor.
//
// Interrupted and short calls are continued; any failure throws CheckpointError with the
// path, what was tried, and the system's words.
class File {
 public:
  File(int descriptor, std::string path);

  int64_t size_bytes() const;
  void read(void* out, size_t bytes, int64_t offset) const;  // throws when cut off
  // The same past the system's cache, which spares a copy of each byte: the blocks of
  // kBlockBytes that are whole, if `offset` is that of a block and takes(out). What
  // cannot come so, comes as by read().
  void read_direct(void* out, size_t bytes, int64_t offset);
  // Does the system have all these bytes in its cache? Fetches none. Of files that this
  // user could not write it says yes.
  bool is_cached(int64_t offset, int64_t bytes) const;
  void write(const void* data, size_t bytes, int64_t offset, Io& io);
  // The same past the cache, as far as read_direct() would.
  void write_direct(const void* data, size_t bytes, int64_t offset, Io& io);
  static constexpr int64_t kBlockBytes = 4096;
  // False: memory that begins there would rather have an aligned copy on its way from or
  // to the disk.
  bool takes(const void* data) const;
  void sync(Io& io);

  // Hints; where they are not taken, nothing is lost. Let the system fetch bytes that
  // will be read soon; and nothing else ahead, which it often guesses wrong.
  void ask_for(int64_t offset, int64_t bytes) const;
  void expect_to_be_asked() const;

  // Let an error for a full disk say how much the whole file needs.
  void announce_size(int64_t bytes) { announced_bytes_ = bytes; }

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void throw_write_error(size_t bytes, int64_t offset, int error) const;
  template <class Call, class Fail>
  size_t past_cache(const void* memory, size_t bytes, int64_t offset, const Call& call,
                    const Fail& fail);

  Descriptor descriptor_;
  std::string path_;
  int64_t announced_bytes_ = 0;
  size_t direct_alignment_;  // of memory that the disk takes; 0: it takes none
};

// A folder held open: whatever happens to its path, names are resolved inside it.
//
// Names are plain (no '/'); symbolic links, pipes and devices are refused by open().
class Folder {
 public:
  explicit Folder(const std::string& path);

  Folder subfolder(const std::string& name) const;  // not through a link
  File open(const std::string& name) const;
  File create(const std::string& name, Io& io) const;
  int64_t size_of(const std::string& name) const;  // of a regular file; throws otherwise
  bool has(const std::string& name) const;         // anything, also a dangling link
  bool has_file(const std::string& name) const;    // a regular one, not through a link
  bool has_folder(const std::string& name) const;  // not through a link
  bool leads_to_folder(const std::string& name) const;  // be it through a link
  std::vector<std::string> names() const;               // sorted, without "." and ".."
  void sync(Io& io) const;

  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  Folder(int descriptor, std::string path);
  bool look(const std::string& name, struct stat& status) const;  // false: see errno

  Descriptor descriptor_;
  std::string path_;
};

// After so many bytes a long write is synced, so that the last sync does not stand still
// for minutes.
constexpr int64_t kSyncBytes = int64_t{256} << 20;

// Read a whole small file; larger than `max_bytes` is an error.
std::string read_text(const Folder& folder, const std::string& name, int64_t max_bytes);

// Write a new file and make its bytes durable.
void write_text(const Folder& folder, const std::string& name, std::string_view text,
                Io& io);

// Split "runs/a/step" into "runs/a" and "step"; trailing slashes do not count.
struct PathParts {
  std::string folder, name;
};
PathParts split_path(std::string path);

}  // namespace zero::checkpoint
