#include "launcher/data/images/decode.h"

#include "tests/launcher/data/images/image_files.h"

namespace zero::data::decode_test {
namespace {

using Strings = std::vector<std::string>;

class DecodeTest : public ImageFiles {
 protected:
  static void expect_damaged(const std::string& bytes, const Strings& parts) {
    expect_error([&] { decoded(bytes); }, parts);
  }

  // A picture of one row.
  static std::vector<int> row_of(const std::string& bytes) {
    const Image image = decoded(bytes);
    return {image.rgb.begin(), image.rgb.end()};
  }
};

TEST_F(DecodeTest, APngIsReadAsItWasWritten) {
  EXPECT_EQ(decoded(png(picture(13, 17))), picture(13, 17));
  const Image image = picture(13, 17);
  EXPECT_EQ(decoded(png(13, 17, bytes_of(image.rgb), {.is_interlaced = true})), image);
}

TEST_F(DecodeTest, OtherKindsOfPngBecomeRgb) {
  EXPECT_EQ(row_of(png(1, 2, "\x07\xf0", {.color = PNG_COLOR_TYPE_GRAY})),
            (std::vector{7, 7, 7, 240, 240, 240}));
  EXPECT_EQ(row_of(png(1, 2, "\x40", {.color = PNG_COLOR_TYPE_GRAY, .bits = 1})),
            (std::vector{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(row_of(png(1, 1, "\x01\x02\x03\x80", {.color = PNG_COLOR_TYPE_RGB_ALPHA})),
            (std::vector{1, 2, 3}));
  EXPECT_EQ(row_of(png(1, 1, "\x09\x10", {.color = PNG_COLOR_TYPE_GRAY_ALPHA})),
            (std::vector{9, 9, 9}));
  EXPECT_EQ(row_of(png(1, 1, "\x01\xff\x02\xff\x03\xff", {.bits = 16})),
            (std::vector{1, 2, 3}));
  EXPECT_EQ(row_of(png(1, 2, std::string("\x01\x00", 2),
                       {.color = PNG_COLOR_TYPE_PALETTE,
                        .palette = {{1, 2, 3}, {200, 100, 50}},
                        .transparent = "\x10\x20"})),
            (std::vector{200, 100, 50, 1, 2, 3}));
}

TEST_F(DecodeTest, AJpegIsNearToWhatWasWritten) {
  Image image = picture(16, 16);
  for (size_t i = 0; i < image.rgb.size(); ++i)  // smooth
    image.rgb[i] = static_cast<uint8_t>(3 * (i / 48) + 40 * (i % 3));
  const Image found = decoded(jpeg(image));
  ASSERT_EQ(found.height, 16);
  ASSERT_EQ(found.width, 16);
  for (size_t i = 0; i < image.rgb.size(); ++i)
    ASSERT_NEAR(found.rgb[i], image.rgb[i], 3) << i;
}

TEST_F(DecodeTest, AGrayJpegHasThreeEqualChannels) {
  const Image image = decoded(jpeg(8, 8, std::string(64, '\x64'), JCS_GRAYSCALE));
  EXPECT_THAT(image.rgb, ::testing::Each(100));
  EXPECT_EQ(image.rgb.size(), 192u);
}

TEST_F(DecodeTest, InksBecomeRgb) {
  std::string left_out, inks;
  for (int i = 0; i < 64; ++i) left_out += "\xff\x80\x33\x80";
  for (int i = 0; i < 64; ++i) inks += std::string("\x00\x7f\xcc\x7f", 4);
  for (const Image& image : {decoded(jpeg(8, 8, left_out, JCS_CMYK)),
                             decoded(jpeg(8, 8, inks, JCS_CMYK, false))}) {
    EXPECT_NEAR(image.rgb[0], 128, 2);
    EXPECT_NEAR(image.rgb[1], 64, 2);
    EXPECT_NEAR(image.rgb[2], 26, 2);
  }
}

TEST_F(DecodeTest, EveryTruncatedImageIsRefused) {
  const std::string as_png = png(picture(9, 9)), as_jpeg = jpeg(picture(9, 9));
  for (const std::string& bytes : {as_png, as_jpeg})
    for (size_t length = 0; length < bytes.size(); ++length)
      ASSERT_THROW(decoded(bytes.substr(0, length)), DataError) << length;
  expect_damaged(
      as_png.substr(0, as_png.size() - 20),
      {"image is damaged: the file ends too early", "picture", "leave it out"});
  expect_damaged(as_jpeg.substr(0, as_jpeg.size() / 2 + 200),
                 {"image is damaged: Premature end of JPEG file", "picture"});
}

TEST_F(DecodeTest, AChangedByteOfPixelsIsNoticed) {
  std::string bytes = png(picture(9, 9));
  bytes[bytes.find("IDAT") + 20] ^= 4;
  expect_damaged(bytes, {"image is damaged", "picture"});
}

TEST_F(DecodeTest, NeitherOneNorTheOther) {
  expect_damaged("", {"image file is empty", "picture, byte 0"});
  expect_damaged("GIF89a", {"neither JPEG nor PNG", "picture, byte 0"});
  expect_damaged(std::string("\xff\xd8\xff", 3), {"damaged"});
}

// The size stands in the header; nothing follows it.
TEST_F(DecodeTest, AHugeImageIsRefusedBeforeItTakesMemory) {
  std::string as_jpeg = jpeg(picture(8, 8));
  const size_t frame = as_jpeg.find("\xff\xc0");
  as_jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  expect_damaged(as_jpeg, {"65500 x 65500 pixels, more than 268,435,456"});
  expect_error([] { check_num_pixels(1 << 14, (1 << 14) + 1, "a"); }, {"more than"});
  expect_error([] { check_num_pixels(0, 5, "a"); }, {"0 x 5 pixels"});
  expect_error([] { check_num_pixels(int64_t{1} << 40, int64_t{1} << 40, "a"); },
               {"more than"});
  check_num_pixels(1 << 14, 1 << 14, "a");
}

TEST_F(DecodeTest, AHugePngIsRefusedBeforeItTakesMemory) {
  const std::string row(static_cast<size_t>(1 << 14) / 8 + 1, '\0');
  std::string rows;
  for (int i = 0; i < (1 << 14) + 1; ++i) rows += row;
  const PngKind bits{.color = PNG_COLOR_TYPE_GRAY, .bits = 1};
  expect_damaged(png((1 << 14) + 1, (1 << 14) + 1, rows, bits),
                 {"16385 x 16385 pixels, more than 268,435,456"});
}

TEST_F(DecodeTest, NamesOfImages) {
  for (const char* name : {"a.png", "a.PNG", "b/c.Jpeg", "x.y.jpg"})
    EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"png", "a.gif", "a.png.txt", ""})
    EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace zero::data::decode_test
