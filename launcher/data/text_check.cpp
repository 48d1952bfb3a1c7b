#include "launcher/data/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "launcher/data/mapped_file.h"

namespace zero::data {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic, name, cure;
  // Where the first letters alone might be those of a text: what the file ends with.
  std::string_view end = "";
};

constexpr std::string_view kUnpack = "unpack it";
constexpr std::string_view kExtract = "write its text column to a file";
constexpr Kind kKinds[] = {
    {"\x7f"
     "ELF",
     "a program", "name a text"},
    {"PAR1", "a parquet table", kExtract, "PAR1"},
    {"ARROW1\0\0"sv, "an Arrow table", kExtract},
    {"SQLite format 3\0"sv, "an SQLite database", kExtract},
    {"\x89HDF", "an HDF5 file", kExtract},
    {"\x93NUMPY", "a NumPy array", "write its tokens as uint16 to a .bin file"},
    {"PK\x03\x04", "a zip archive", kUnpack},
    {"\x1f\x8b", "gzip", kUnpack},
    {"BZh91AY&SY", "bzip2", kUnpack},
    {"\xfd"
     "7zXZ",
     "xz", kUnpack},
    {"\x28\xb5\x2f\xfd", "zstd", kUnpack},
    {"%PDF-", "a PDF", "extract its text"},
    {"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
};

[[noreturn]] void refuse(const MappedFile& file, int64_t offset, const std::string& what,
                         std::string_view cure) {
  throw DataError(what, at_byte(file.path(), offset),
                  fmt::format("{}; or --bytes to learn its bytes as they are", cure));
}

}  // namespace

void require_text(const MappedFile& file) {
  constexpr int64_t kLookedAt = 64 << 10;
  if (file.size_bytes() == 0) return;
  const auto bytes = file.view();
  const std::string_view head(
      reinterpret_cast<const char*>(bytes.get()),
      static_cast<size_t>(std::min(kLookedAt, file.size_bytes())));
  const int64_t num_last = std::min<int64_t>(8, file.size_bytes());
  const auto last = file.view(file.size_bytes() - num_last);
  const std::string_view tail(reinterpret_cast<const char*>(last.get()),
                              static_cast<size_t>(num_last));
  for (const Kind& kind : kKinds) {
    if (head.starts_with(kind.magic) && tail.ends_with(kind.end))
      refuse(file, 0, fmt::format("this is no text but {}", kind.name), kind.cure);
  }
  const size_t zero = head.find('\0');
  if (zero != head.npos)
    refuse(file, static_cast<int64_t>(zero), "this is no text: it has a zero byte",
           "name a text; raw uint16 tokens are files named .bin");
}

}  // namespace zero::data
