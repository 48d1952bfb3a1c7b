#include "launcher/run/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/processes.h"
#include "launcher/run/console.h"
#include "launcher/run/progress.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

std::string cell_of(const nlohmann::ordered_json& number) {
  const bool is_finite = !number.is_number_float() || std::isfinite(number.get<double>());
  return is_finite ? number.dump() : "nan";
}

// A log may have been moved elsewhere and linked back: then it begins as ours do.
bool leads_to_ours(const std::string& path, const std::string& begin) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string found(begin.size(), '\0');
  return std::ifstream(path).read(found.data(), std::ssize(found)) && found == begin;
}

// A regular file alone, which errno tells else, and no link but to one of ours.
// O_NONBLOCK: a pipe must not keep a run waiting for its reader.
bool open_file(const std::string& path, const std::string& begin,
               std::optional<Descriptor>& file) {
  const int how = leads_to_ours(path, begin) ? 0 : O_CREAT | O_NOFOLLOW;
  file.emplace(
      open(path.c_str(), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC | how, 0666));
  struct stat status;
  if (*file >= 0 && fstat(*file, &status) == 0 && S_ISREG(status.st_mode)) return true;
  if (*file >= 0) errno = EINVAL;
  file.reset();
  return false;
}

// A file that was moved, replaced or removed has another at its path, or none.
bool still_lies_at(const std::string& path, int descriptor) {
  struct stat named, opened;
  return stat(path.c_str(), &named) == 0 && fstat(descriptor, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

// Somebody else's last line has no end.
bool is_cut_off(int descriptor, int64_t size) {
  char last = '\n';
  return size > 0 && pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

// Half a line would make the file unreadable.
void take_back(int descriptor, int64_t size_before, bool has_written) {
  if (!has_written || size_before < 0) return;
  [[maybe_unused]] const int ignored = ftruncate(descriptor, size_before);
}

// ---- TensorBoard

static_assert(std::endian::native == std::endian::little, "as records are");

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// --- fields of protocol buffers: a number, then what its type says

enum class Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint64_t field, Wire wire) {
  return varint(field << 3 | static_cast<uint64_t>(wire));
}

std::string number_field(uint64_t field, int64_t value) {
  return key(field, Wire::kVarint) + varint(static_cast<uint64_t>(value));
}

std::string bytes_field(uint64_t field, const std::string& bytes) {
  return key(field, Wire::kBytes) + varint(bytes.size()) + bytes;
}

// --- event.proto and summary.proto of TensorFlow

std::string event(int64_t step) {
  return key(1, Wire::kFixed64) + bytes_of(wall_seconds()) + number_field(2, step);
}

std::string version_event() { return event(0) + bytes_field(3, "brain.Event:2"); }

// Takes back what files before this one tell of the step and of those behind it.
std::string start_event(int64_t step) {
  constexpr int64_t kStart = 1;
  return event(step) + bytes_field(7, number_field(1, kStart));
}

std::string scalar(const std::string& tag, double value) {
  return bytes_field(1, bytes_field(1, tag) + key(2, Wire::kFixed32) +
                            bytes_of(static_cast<float>(value)));
}

std::string framed(const std::string& data) {
  const auto masked = [](std::string_view bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
  };
  const std::string length = bytes_of(uint64_t{data.size()});
  return length + bytes_of(masked(length)) + data + bytes_of(masked(data));
}

// TensorBoard knows its files by "tfevents", and reads them in the order of their names.
std::string new_path(const std::string& folder) {
  std::error_code ignored;  // the first record tells
  std::filesystem::create_directory(folder, ignored);
  return fmt::format("{}/events.out.tfevents.{:017.6f}.{}.{}", folder, wall_seconds(),
                     host_name(), getpid());
}

}  // namespace

std::vector<std::string> columns_of_csv(const std::string& path) {
  std::error_code error;
  std::string line;
  if (std::filesystem::is_regular_file(path, error)) {
    std::ifstream file(path);
    std::getline(file, line);
  }
  if (line.ends_with('\r')) line.pop_back();
  return line.empty() ? std::vector<std::string>() : split(line, ',');
}

CsvFile::CsvFile(const std::string& path, std::vector<std::string> columns)
    : path_(path), new_columns_(std::move(columns)), file_(path, new_columns_.front()) {}

// Those of its first line, which is written where there is none. The file may be another
// one than before.
std::vector<std::string> CsvFile::columns() {
  if (!file_.is_empty()) return columns_of_csv(path_);
  if (!file_.append(fmt::format("{}", fmt::join(new_columns_, ",")))) return {};
  return new_columns_;
}

void CsvFile::write(const nlohmann::ordered_json& numbers) {
  std::vector<std::string> row;
  int num_filled = 0;
  for (const std::string& column : columns()) {
    const auto found = numbers.find(column);
    row.push_back(found == numbers.end() ? "" : cell_of(*found));
    num_filled += found != numbers.end();
  }
  if (num_filled > 1) file_.append(fmt::format("{}", fmt::join(row, ",")));
}

AppendFile::AppendFile(std::string path, std::string begin, std::string end,
                       std::string then)
    : path_(std::move(path)),
      begin_(std::move(begin)),
      end_(std::move(end)),
      then_(std::move(then)) {}

bool AppendFile::append(const std::string& record) {
  if (try_append(record)) {
    num_lost_ = 0;
    return true;
  }
  ++num_lost_;
  if (!std::exchange(has_warned_, true))
    warn(fmt::format("cannot write {}: {}; {}", path_, std::strerror(errno), then_));
  return false;
}

// Opens the file at the path, where it is not the one that is open.
bool AppendFile::follow_path() {
  if (file_ && !still_lies_at(path_, *file_)) file_.reset();
  return file_ || open_file(path_, begin_, file_);
}

bool AppendFile::is_empty() {
  struct stat status;
  return !follow_path() || fstat(*file_, &status) != 0 || status.st_size == 0;
}

bool AppendFile::try_append(const std::string& record) {
  if (!follow_path()) return false;
  const int64_t size_before = lseek(*file_, 0, SEEK_END);
  const bool is_line = !end_.empty();
  const std::string text =
      (is_line && is_cut_off(*file_, size_before) ? end_ : "") + record + end_;
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(*file_, text.data() + done, text.size() - done);
    if (written > 0) {
      done += written;
    } else if (errno != EINTR) {
      const int error = errno;
      take_back(*file_, size_before, done > 0);
      errno = error;
      return false;
    }
  }
  return true;
}

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> all{};
    for (uint32_t i = 0; i < all.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = (value >> 1) ^ (0x82f63b78u & (0u - (value & 1)));
      all[i] = value;
    }
    return all;
  }();
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

TensorboardFile::TensorboardFile(const std::string& folder, int64_t first_step)
    : first_step_(first_step), file_(new_path(folder), "", "") {
  append("");
}

// Behind the two records that a file begins with.
void TensorboardFile::append(const std::string& records) {
  const bool is_new = file_.is_empty();
  file_.append(
      (is_new ? framed(version_event()) + framed(start_event(first_step_)) : "") +
      records);
}

void TensorboardFile::write(int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += scalar(tag, value);
  append(framed(event(step) + bytes_field(5, summary)));
}

}  // namespace zero::launcher
