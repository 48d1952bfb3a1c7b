#pragma once
#include <png.h>

#include <cstdio>
// What follows wants FILE.
#include <jpeglib.h>

#include "launcher/data/images/image_source.h"
#include "tests/launcher/data/data_files.h"

namespace zero::data {

// Words to fill a folder with images, each of them made here.
class ImageFiles : public DataFiles {
 protected:
  // A picture in which neighbours differ, and each `salt` gives another one.
  static Image picture(int64_t height, int64_t width, int64_t salt = 0) {
    Image image{height, width, {}};
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int64_t c = 0; c < 3; ++c)
          image.rgb.push_back(
              static_cast<uint8_t>(x * 37 + y * 91 + c * 53 + x * y * 7 + salt * 11));
    return image;
  }

  struct PngKind {
    int color = PNG_COLOR_TYPE_RGB;
    int bits = 8;
    bool is_interlaced = false;
    std::vector<png_color> palette = {};
    std::string transparent = {};  // alpha of the palette's first colours
  };

  // `rows`: of all rows, as they are stored.
  static std::string png(int64_t height, int64_t width, const std::string& rows,
                         const PngKind& kind) {
    std::string bytes;
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(
        png, &bytes,
        [](png_structp to, png_bytep data, size_t count) {
          static_cast<std::string*>(png_get_io_ptr(to))
              ->append(reinterpret_cast<const char*>(data), count);
        },
        nullptr);
    png_set_IHDR(png, info, static_cast<png_uint_32>(width),
                 static_cast<png_uint_32>(height), kind.bits, kind.color,
                 kind.is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!kind.palette.empty())
      png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
    if (!kind.transparent.empty())
      png_set_tRNS(png, info, reinterpret_cast<const png_byte*>(kind.transparent.data()),
                   static_cast<int>(kind.transparent.size()), nullptr);
    png_write_info(png, info);
    const int num_passes = png_set_interlace_handling(png);
    const size_t row_bytes = png_get_rowbytes(png, info);
    for (int pass = 0; pass < num_passes; ++pass)
      for (int64_t y = 0; y < height; ++y)
        png_write_row(png,
                      reinterpret_cast<png_const_bytep>(rows.data()) + y * row_bytes);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return bytes;
  }

  static std::string png(const Image& image) {
    return png(image.height, image.width, bytes_of(image.rgb), {});
  }

  // `pixels` of (height, width, channels of the space).
  static std::string jpeg(int64_t height, int64_t width, const std::string& pixels,
                          J_COLOR_SPACE space, bool says_adobe = true) {
    jpeg_compress_struct to{};
    jpeg_error_mgr errors{};
    to.err = jpeg_std_error(&errors);
    jpeg_create_compress(&to);
    unsigned char* memory = nullptr;
    unsigned long count = 0;
    jpeg_mem_dest(&to, &memory, &count);
    to.image_height = static_cast<JDIMENSION>(height);
    to.image_width = static_cast<JDIMENSION>(width);
    to.in_color_space = space;
    to.input_components = space == JCS_CMYK ? 4 : space == JCS_GRAYSCALE ? 1 : 3;
    jpeg_set_defaults(&to);
    jpeg_set_quality(&to, 100, TRUE);
    if (!says_adobe) to.write_Adobe_marker = FALSE;
    jpeg_start_compress(&to, TRUE);
    for (int64_t y = 0; y < height; ++y) {
      auto* row = reinterpret_cast<JSAMPROW>(
          const_cast<char*>(pixels.data() + y * width * to.input_components));
      jpeg_write_scanlines(&to, &row, 1);
    }
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    const std::string bytes(reinterpret_cast<const char*>(memory), count);
    std::free(memory);
    return bytes;
  }

  static std::string jpeg(const Image& image) {
    return jpeg(image.height, image.width, bytes_of(image.rgb), JCS_RGB);
  }

  static Image decoded(const std::string& bytes) {
    return decode({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()},
                  "picture");
  }

  // Of CIFAR: its labels, then pixels.
  static std::string record(const std::vector<uint8_t>& labels, const Image& image) {
    std::string bytes = bytes_of(labels);
    for (size_t c = 0; c < 3; ++c)
      for (size_t p = c; p < image.rgb.size(); p += 3)
        bytes += static_cast<char>(image.rgb[p]);
    return bytes;
  }

  static std::string npy(const std::string& type, const std::string& shape,
                         const std::string& values, int version = 1,
                         const std::string& order = "False") {
    std::string header = "{'descr': '" + type + "', 'fortran_order': " + order +
                         ", 'shape': " + shape + ", }\n";
    std::string length(version == 1 ? 2 : 4, '\0');
    length[0] = static_cast<char>(header.size());
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length +
           header + values;
  }

  // Two classes: a/1.png, a/deep/2.JPG and b/3.jpeg.
  std::string two_classes(const std::string& name = "two") const {
    write(name + "/b/3.jpeg", jpeg(picture(9, 8, 3)));
    write(name + "/a/deep/2.JPG", jpeg(picture(7, 6, 2)));
    write(name + "/a/1.png", png(picture(5, 4, 1)));
    return path(name);
  }

  static std::vector<int64_t> labels_of(const ImageSource& source) {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < source.num_images(); ++i) labels.push_back(source.label(i));
    return labels;
  }

  static std::vector<std::string> names_of(const ImageSource& source) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < source.num_images(); ++i) names.push_back(source.name(i));
    return names;
  }

  static void expect_no_source(const std::string& path,
                               const std::vector<std::string>& parts) {
    expect_error([&] { ImageSource({path}); }, parts);
  }
};

}  // namespace zero::data
