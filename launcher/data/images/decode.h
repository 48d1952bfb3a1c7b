#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero::data {

// A picture in memory.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // (height, width, 3)
  bool operator==(const Image&) const = default;
};

// A picture of more pixels is refused before memory is taken for it.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

// Throws DataError for a picture without pixels or with more than kMostPixels.
void check_num_pixels(int64_t height, int64_t width, const std::string& where);

enum class Encoding { kUnknown, kJpeg, kPng };

// What the first bytes say, eight are enough; names of files may be wrong.
Encoding encoding_of(std::span<const unsigned char> head);

// Does a file's name end as those of pictures do: .png, .jpg, .jpeg, in any case?
bool is_image_name(std::string_view name);

// Make pixels of a JPEG or PNG, as its first bytes say. Gray becomes three equal
// channels, CMYK is converted, alpha is dropped, of 16 bits the upper 8 stay. Profiles of
// colours and turns noted by cameras are ignored. `where` names the picture in errors.
// Throws DataError for damaged and truncated pictures. Safe from several threads.
Image decode(std::span<const unsigned char> bytes, const std::string& where);

// The two, for decode().
Image decode_jpeg(std::span<const unsigned char> bytes, const std::string& where);
Image decode_png(std::span<const unsigned char> bytes, const std::string& where);

}  // namespace zero::data
