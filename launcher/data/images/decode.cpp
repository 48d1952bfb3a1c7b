#include "launcher/data/images/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "launcher/data/mapped_file.h"

namespace zero::data {
namespace {

bool begins_with(std::span<const unsigned char> head, std::string_view magic) {
  return head.size() >= magic.size() &&
         std::ranges::equal(head.first(magic.size()), magic, {}, {},
                            [](char c) { return static_cast<unsigned char>(c); });
}

}  // namespace

void check_num_pixels(int64_t height, int64_t width, const std::string& where) {
  if (height < 1 || width < 1)
    throw DataError(fmt::format("the image has {} x {} pixels", height, width), where,
                    "leave the image out");
  if (height <= kMostPixels / width) return;
  throw DataError(fmt::format("the image has {} x {} pixels, more than {}", height, width,
                              fmt::group_digits(kMostPixels)),
                  where, "make the image smaller, or leave it out");
}

Encoding encoding_of(std::span<const unsigned char> head) {
  if (begins_with(head, "\xff\xd8\xff")) return Encoding::kJpeg;
  if (begins_with(head, "\x89PNG\r\n\x1a\n")) return Encoding::kPng;
  return Encoding::kUnknown;
}

bool is_image_name(std::string_view name) {
  const std::string lower = to_lower(name);
  return lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

Image decode(std::span<const unsigned char> bytes, const std::string& where) {
  const Encoding encoding = encoding_of(bytes);
  if (encoding == Encoding::kJpeg) return decode_jpeg(bytes, where);
  if (encoding == Encoding::kPng) return decode_png(bytes, where);
  throw DataError(bytes.empty() ? "the image file is empty"
                                : "the image is neither JPEG nor PNG by its first bytes",
                  at_byte(where, 0), "write it as JPEG or PNG, or leave it out");
}

}  // namespace zero::data
