#include "launcher/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace zero::data {
namespace {

[[noreturn]] void throw_errno(const std::string& what, const std::string& path) {
  const int code = errno;
  const std::string cure =
      code == ENOMEM ? "join the files into fewer, or raise vm.max_map_count"
                     : "check --data, the file's permissions and its file system";
  throw DataError(what + ": " + std::strerror(code), path, cure);
}

}  // namespace

MappedFile::MappedFile(std::string path, bool keep_mapped) : path_(std::move(path)) {
  stamp_ = read_stamp();
  auto mapping = map();  // even when it is not kept: an unreadable file shall be seen now
  if (keep_mapped) kept_ = std::move(mapping);
}

std::shared_ptr<const unsigned char> MappedFile::view(int64_t offset) const {
  assert(offset >= 0 && offset <= size_bytes());
  check_unchanged();
  auto mapping = kept_ ? kept_ : map();
  const auto* bytes = mapping.get() + offset;
  return {std::move(mapping), bytes};
}

void MappedFile::check_unchanged() const {
  const Stamp now = read_stamp();
  if (now == stamp_) return;
  const std::string what =
      now.size_bytes == stamp_.size_bytes
          ? std::string("the data file was written to since this run opened it")
          : fmt::format(
                "the data file changed since this run opened it: {} bytes then, {} now",
                stamp_.size_bytes, now.size_bytes);
  throw DataError(what, at_byte(path_, std::min(now.size_bytes, stamp_.size_bytes)),
                  "leave data alone while a run reads it; start the run again");
}

MappedFile::Stamp MappedFile::read_stamp() const {
  struct stat status;
  if (::stat(path_.c_str(), &status) != 0)
    throw_errno("cannot look up the data file", path_);
  return {status.st_size,
          status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

std::shared_ptr<const unsigned char> MappedFile::map() const {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file < 0) throw_errno("cannot open the data file", path_);
  const auto num_bytes = static_cast<size_t>(stamp_.size_bytes);
  if (num_bytes == 0) return nullptr;  // mmap refuses an empty range
  void* memory = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw_errno("cannot map the data file", path_);
  return {static_cast<const unsigned char*>(memory),
          [num_bytes](const unsigned char* bytes) {
            ::munmap(const_cast<unsigned char*>(bytes), num_bytes);
          }};
}

}  // namespace zero::data
