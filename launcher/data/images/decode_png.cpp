#include <png.h>

#include <cstring>
#include <new>

#include "base/no_copy.h"
#include "launcher/data/images/decode.h"
#include "launcher/data/images/way_back.h"

namespace zero::data {
namespace {

// Owns libpng's state for one picture.
class PngReader : NoCopy {
 public:
  PngReader(std::span<const unsigned char> bytes, const std::string& where)
      : left_(bytes), where_(where) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &back_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, on_read_bytes);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Image read() {
    back_.attempt_or_throw(where_, [this] { png_read_info(png_, info_); });
    Image image{png_get_image_height(png_, info_), png_get_image_width(png_, info_), {}};
    check_num_pixels(image.height, image.width, where_);
    image.rgb.resize(static_cast<size_t>(image.height * image.width * 3));
    back_.attempt_or_throw(where_, [&] { read_rows(image); });
    return image;
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    static_cast<WayBack*>(png_get_error_ptr(png))->fail(message);
  }
  static void on_warning(png_structp, png_const_charp) {}  // of what is beside the pixels

  static void on_read_bytes(png_structp png, png_bytep out, size_t count) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader->left_.size()) reader->back_.fail("the file ends too early");
    std::memcpy(out, reader->left_.data(), count);
    reader->left_ = reader->left_.subspan(count);
  }

  // Ask for 8 bits of red, green and blue, whatever is stored.
  void ask_for_rgb() {
    png_set_expand(png_);  // palettes, fewer bits, transparent colours
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
  }

  void read_rows(Image& image) {
    ask_for_rgb();
    const int num_passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const int64_t row_bytes = image.width * 3;
    if (png_get_rowbytes(png_, info_) != static_cast<size_t>(row_bytes))
      back_.fail("its rows have another length than its header says");
    for (int pass = 0; pass < num_passes; ++pass)
      for (int64_t y = 0; y < image.height; ++y)
        png_read_row(png_, image.rgb.data() + y * row_bytes, nullptr);
    png_read_end(png_, nullptr);  // checks the sum over the last pixels
  }

  WayBack back_;
  std::span<const unsigned char> left_;
  const std::string& where_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Image decode_png(std::span<const unsigned char> bytes, const std::string& where) {
  return PngReader(bytes, where).read();
}

}  // namespace zero::data
