#include <cstdio>
// Those below want FILE.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>

#include "base/no_copy.h"
#include "launcher/data/images/decode.h"
#include "launcher/data/images/way_back.h"

namespace zero::data {
namespace {

// libjpeg warns of pixels that are guessed, as of trifles: bytes too many, old versions.
bool is_damage(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_MUST_RESYNC;
}

[[noreturn]] void leave_libjpeg(j_common_ptr common) {
  char message[JMSG_LENGTH_MAX];
  common->err->format_message(common, message);
  static_cast<WayBack*>(common->client_data)->fail(message);
}

void on_jpeg_message(j_common_ptr common, int level) {
  if (level < 0 && is_damage(common->err->msg_code)) leave_libjpeg(common);
}

// (width, 4) to (width, 3) in place. Adobe's programs store how much of each ink is left
// out, others how much there is.
void cmyk_to_rgb(uint8_t* row, int64_t width, bool is_inverted) {
  for (int64_t x = 0; x < width; ++x) {
    uint8_t left_out[4];
    for (int i = 0; i < 4; ++i)
      left_out[i] = is_inverted ? row[x * 4 + i] : 255 - row[x * 4 + i];
    for (int i = 0; i < 3; ++i)
      row[x * 3 + i] = static_cast<uint8_t>((left_out[i] * left_out[3] + 127) / 255);
  }
}

// Owns libjpeg's state for one picture.
class JpegReader : NoCopy {
 public:
  JpegReader(std::span<const unsigned char> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = &back_;
    errors_.error_exit = leave_libjpeg;
    errors_.emit_message = on_jpeg_message;
    errors_.output_message = [](j_common_ptr) {};
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  Image read() {
    back_.attempt_or_throw(where_, [this] { read_header(); });
    Image image{jpeg_.image_height, jpeg_.image_width, {}};
    check_num_pixels(image.height, image.width, where_);
    image.rgb.resize(static_cast<size_t>(image.height * image.width * 3));
    std::vector<uint8_t> row(static_cast<size_t>(image.width * 4));
    back_.attempt_or_throw(where_, [&] { read_rows(image, row.data()); });
    return image;
  }

 private:
  void read_header() {
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, bytes_.data(), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
  }

  // Row by row through one that has room for four channels.
  void read_rows(Image& image, uint8_t* row) {
    const bool has_inks =
        jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    jpeg_.out_color_space = has_inks ? JCS_CMYK : JCS_RGB;
    jpeg_.dct_method = JDCT_ISLOW;  // the same bits on every processor
    jpeg_start_decompress(&jpeg_);
    for (int64_t y = 0; y < image.height; ++y) {
      jpeg_read_scanlines(&jpeg_, &row, 1);
      if (has_inks) cmyk_to_rgb(row, image.width, jpeg_.saw_Adobe_marker);
      std::copy_n(row, image.width * 3, image.rgb.begin() + y * image.width * 3);
    }
    jpeg_finish_decompress(&jpeg_);
  }

  WayBack back_;
  std::span<const unsigned char> bytes_;
  const std::string& where_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
};

}  // namespace

Image decode_jpeg(std::span<const unsigned char> bytes, const std::string& where) {
  return JpegReader(bytes, where).read();
}

}  // namespace zero::data
