#include "launcher/run/csv_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/run/console.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// Nothing where that is no file, as a pipe, whose writer one would wait for.
std::vector<std::string> columns_in(const std::string& path) {
  std::error_code error;
  std::string line;
  if (std::filesystem::is_regular_file(path, error)) {
    std::ifstream file(path);
    std::getline(file, line);
  }
  if (line.ends_with('\r')) line.pop_back();
  return line.empty() ? std::vector<std::string>() : split(line, ',');
}

std::string cell_of(const nlohmann::ordered_json& number) {
  const bool is_finite = !number.is_number_float() || std::isfinite(number.get<double>());
  return is_finite ? number.dump() : "nan";
}

int64_t size_of(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 ? status.st_size : -1;
}

// O_NONBLOCK: a pipe must not keep a run waiting for its reader.
int open_file(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  struct stat status;
  if (descriptor < 0 || (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)))
    return descriptor;
  close(descriptor);
  errno = EINVAL;
  return -1;
}

// Half a line would make the file unreadable.
void take_back(int descriptor, int64_t size_before, bool has_written) {
  if (!has_written || size_before < 0) return;
  [[maybe_unused]] const int ignored = ftruncate(descriptor, size_before);
}

}  // namespace

CsvFile::CsvFile(const std::string& path, std::vector<std::string> columns)
    : path_(path), new_columns_(std::move(columns)), file_(path) {}

// Whether there is a first line, which is written where there is none.
bool CsvFile::has_columns() {
  if (file_.is_empty()) {
    columns_ = new_columns_;
    return file_.append(fmt::format("{}", fmt::join(columns_, ",")));
  }
  if (columns_.empty()) columns_ = columns_in(path_);
  return !columns_.empty();
}

void CsvFile::write(const nlohmann::ordered_json& numbers) {
  if (!has_columns()) return;
  std::vector<std::string> row;
  int num_filled = 0;
  for (const std::string& column : columns_) {
    const auto found = numbers.find(column);
    row.push_back(found == numbers.end() ? "" : cell_of(*found));
    num_filled += found != numbers.end();
  }
  if (num_filled > 1) file_.append(fmt::format("{}", fmt::join(row, ",")));
}

AppendFile::AppendFile(std::string path, std::string end)
    : path_(std::move(path)), end_(std::move(end)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool AppendFile::append(const std::string& record) {
  if (try_append(record + end_)) {
    num_lost_ = 0;
    return true;
  }
  ++num_lost_;
  if (!std::exchange(has_warned_, true))
    warn(
        fmt::format("cannot write {}: {}; training goes on, lines are lost until it can "
                    "be written again",
                    path_, std::strerror(errno)));
  return false;
}

bool AppendFile::is_empty() const {
  struct stat status;
  return stat(path_.c_str(), &status) != 0 || status.st_size == 0;
}

bool AppendFile::try_append(const std::string& text) {
  if (descriptor_ < 0) descriptor_ = open_file(path_);
  if (descriptor_ < 0) return false;
  const int64_t size_before = size_of(descriptor_);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written > 0) {
      done += written;
    } else if (errno != EINTR) {
      const int error = errno;
      take_back(descriptor_, size_before, done > 0);
      errno = error;
      return false;
    }
  }
  return true;
}

}  // namespace zero::launcher
