#include "launcher/run/lines_from_end.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace zero::launcher {
namespace {

constexpr int64_t kBlockBytes = 64 << 10;

}  // namespace

LinesFromEnd::LinesFromEnd(int descriptor, int64_t size)
    : descriptor_(descriptor), begin_(size) {}

// Another block before what is there; false: there is none.
bool LinesFromEnd::read_more() {
  const int64_t bytes = std::min(begin_, kBlockBytes);
  std::string block(static_cast<size_t>(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count =
        ::pread(descriptor_, block.data() + done, static_cast<size_t>(bytes - done),
                begin_ - bytes + done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error_ = count < 0 ? errno : EIO;  // it has become shorter
      return false;
    }
    done += count;
  }
  begin_ -= bytes;
  buffer_.insert(0, block);
  return bytes > 0;
}

std::optional<LinesFromEnd::Line> LinesFromEnd::next() {
  if (buffer_.empty() && !read_more()) return std::nullopt;
  const bool is_torn = is_first_ && buffer_.back() != '\n';
  is_first_ = false;
  if (!is_torn) buffer_.pop_back();
  size_t end_of_previous = buffer_.rfind('\n');
  while (end_of_previous == std::string::npos) {
    const size_t searched = buffer_.size();
    if (!read_more()) break;
    end_of_previous = buffer_.rfind('\n', buffer_.size() - searched - 1);
  }
  const size_t begin = end_of_previous == std::string::npos ? 0 : end_of_previous + 1;
  Line line{begin_ + static_cast<int64_t>(begin), is_torn, buffer_.substr(begin)};
  buffer_.resize(begin);
  return line;
}

}  // namespace zero::launcher
