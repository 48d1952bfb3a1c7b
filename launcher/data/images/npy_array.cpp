#include "launcher/data/images/npy_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace zero::data {
namespace {

[[noreturn]] void refuse_array(const MappedFile& file, int64_t offset,
                               const std::string& what, const std::string& cure) {
  throw DataError(what, at_byte(file.path(), offset), cure);
}

constexpr const char* kSaveAgain = "save the array again, by numpy.save()";

struct HeaderPlace {
  int64_t begin = 0, bytes = 0;
};

// Behind the magic: two bytes of the version, then the header's length in two or four.
HeaderPlace find_header(const MappedFile& file) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  constexpr int64_t kShortest = 12;
  if (file.size_bytes() < kShortest)
    refuse_array(file, 0, "the file is too short for a NumPy array", kSaveAgain);
  const auto bytes = file.view();
  if (std::memcmp(bytes.get(), kMagic.data(), kMagic.size()) != 0)
    refuse_array(file, 0, "the file is no NumPy array by its first bytes", kSaveAgain);
  const int version = bytes.get()[6];
  if (version < 1 || version > 3)
    refuse_array(file, 6, fmt::format("version {} of NumPy's format is unknown", version),
                 kSaveAgain);
  const int64_t begin = version == 1 ? 10 : 12;
  int64_t length = 0;
  for (int64_t i = begin - 1; i >= 8; --i) length = length << 8 | bytes.get()[i];
  if (length > file.size_bytes() - begin)
    refuse_array(file, 8, "the file ends within the header of its array", kSaveAgain);
  return {begin, length};
}

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \n\t");
  return begin == text.npos ? std::string_view() : text.substr(begin);
}

// What stands behind 'key': in the header, a dictionary of Python; empty: nothing.
std::string_view value_of_key(std::string_view header, const std::string& key) {
  const size_t place = header.find("'" + key + "'");
  if (place == header.npos) return {};
  const std::string_view rest = without_blanks(header.substr(place + key.size() + 2));
  return rest.starts_with(':') ? without_blanks(rest.substr(1)) : std::string_view();
}

// (), (3,), (3, 4): false if it is anything else.
bool read_shape(std::string_view text, std::vector<int64_t>& shape) {
  if (!text.starts_with('(')) return false;
  text.remove_prefix(1);
  while (!(text = without_blanks(text)).starts_with(')')) {
    int64_t length = -1;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || length < 0) return false;
    shape.push_back(length);
    text = without_blanks(text.substr(static_cast<size_t>(end - text.data())));
    if (text.starts_with(','))
      text.remove_prefix(1);
    else if (!text.starts_with(')'))
      return false;
  }
  return true;
}

// Between quotes; empty: there is no plain type.
std::string read_type(std::string_view text) {
  if (!text.starts_with('\'')) return {};
  const size_t end = text.find('\'', 1);
  return end == text.npos ? std::string() : std::string(text.substr(1, end - 1));
}

}  // namespace

NpyArray::NpyArray(const std::string& path) : file_(path, /*keep_mapped=*/true) {
  read_header();
  check_size();
}

void NpyArray::read_header() {
  const HeaderPlace place = find_header(file_);
  const auto bytes = file_.view(place.begin);
  const std::string_view header(reinterpret_cast<const char*>(bytes.get()),
                                static_cast<size_t>(place.bytes));
  data_begin_ = place.begin + place.bytes;
  const std::string type = read_type(value_of_key(header, "descr"));
  const std::string_view order = value_of_key(header, "fortran_order");
  if (order.starts_with("True"))
    refuse_array(file_, place.begin, "the array is in Fortran's order",
                 "save numpy.ascontiguousarray(array)");
  if (type.size() < 3 || !order.starts_with("False") ||
      !read_shape(value_of_key(header, "shape"), shape_))
    refuse_array(file_, place.begin,
                 "the array's header does not tell a plain type, order and shape",
                 kSaveAgain);
  type_ = type.substr(1);
  const char* last = type.data() + type.size();
  if (std::from_chars(type.data() + 2, last, bytes_per_value_).ptr != last ||
      bytes_per_value_ < 1 || bytes_per_value_ > 16)
    refuse_array(file_, place.begin, fmt::format("'{}' is no type of numbers", type),
                 kSaveAgain);
  if (type[0] == '>' && bytes_per_value_ > 1)
    refuse_array(file_, place.begin, "the array is big-endian",
                 "save array.astype(array.dtype.newbyteorder('<'))");
}

void NpyArray::check_size() const {
  const int64_t found = file_.size_bytes() - data_begin_;
  int64_t announced = bytes_per_value_;
  bool is_too_large = false;
  for (const int64_t length : shape_)
    is_too_large |= __builtin_mul_overflow(announced, length, &announced);
  if (!is_too_large && announced == found) return;
  refuse_array(file_, std::min(file_.size_bytes(), data_begin_),
               fmt::format("the header announces an array of {} values of {} bytes, {} "
                           "bytes follow",
                           shape_text(), bytes_per_value_, found),
               "copy or save the array again");
}

std::string NpyArray::shape_text() const {
  return fmt::format("({})", fmt::join(shape_, ", "));
}

}  // namespace zero::data
