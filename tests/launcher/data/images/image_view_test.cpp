#include "launcher/data/images/image_view.h"

#include <cmath>
#include <map>

#include "tests/launcher/data/images/image_files.h"

namespace zero::data::image_view_test {
namespace {

class ImageViewTest : public ImageFiles {
 protected:
  static uint64_t sum_of(const Image& image) {  // FNV-1a
    uint64_t sum = 0xcbf29ce484222325u;
    for (const uint8_t byte : image.rgb) sum = (sum ^ byte) * 0x100000001b3u;
    return sum;
  }

  static Image resized(const Image& image, const Box& box, int64_t height,
                       int64_t width) {
    return resample(image, box, height, width, {0, 0, height, width});
  }

  // Values that write_pixels() gives, made bytes again.
  static std::vector<int> bytes_of_view(const Image& image, const View& view) {
    const Augmentation plain{.size = view.size, .mean = {0, 0, 0}, .std = {1, 1, 1}};
    std::vector<float> pixels(static_cast<size_t>(3 * view.size * view.size));
    write_pixels(image, view, plain, pixels.data());
    std::vector<int> bytes;
    for (const float value : pixels)
      bytes.push_back(static_cast<int>(std::lround(value * 255)));
    return bytes;
  }

  static View view(int64_t height, int64_t width, const Augmentation& augmentation,
                   int64_t image = 0) {
    return view_of(height, width, augmentation, {.seed = 1, .epoch = 0, .image = image});
  }
};

// Made by Pillow 13: image.crop(box).resize(..., BILINEAR).
TEST_F(ImageViewTest, ResizesAsPillowDoes) {
  const Box all{0, 0, 7, 5};
  EXPECT_EQ(
      resized(picture(7, 5), all, 4, 3).rgb,
      (std::vector<uint8_t>{65,  113, 159, 120, 145, 138, 118, 124, 177, 140, 136, 113,
                            117, 129, 138, 139, 129, 152, 106, 159, 126, 149, 128, 124,
                            146, 129, 130, 94,  147, 132, 117, 163, 114, 121, 112, 117}));
  EXPECT_EQ(sum_of(resized(picture(7, 5), all, 13, 9)), 0x6316772a1abc0990u);
  const Image middle = picture(100, 75), large = picture(375, 500);
  EXPECT_EQ(sum_of(resized(middle, {0, 0, 100, 75}, 24, 20)), 0xeb2c86ce6597ce5du);
  EXPECT_EQ(sum_of(resized(middle, {11, 3, 61, 40}, 224, 224)), 0x5bcf25613037d924u);
  EXPECT_EQ(sum_of(resized(large, {20, 33, 300, 401}, 224, 224)), 0xd5096f00e5673fcu);
  EXPECT_EQ(sum_of(resample(large, {0, 0, 375, 500}, 256, 341, {16, 58, 224, 224})),
            0x39855ec6fd0d6fc3u);
}

// Straight from the definition, in fp64.
TEST_F(ImageViewTest, ResizesByATriangle) {
  const Image image = picture(23, 31);
  const auto weight = [](double x) { return std::max(0.0, 1 - std::abs(x)); };
  const auto expected = [&](int64_t height, int64_t width, int64_t y, int64_t x, int c) {
    const double down = 23.0 / static_cast<double>(height);
    const double across = 31.0 / static_cast<double>(width);
    double sum = 0, total = 0;
    for (int64_t v = 0; v < 23; ++v)
      for (int64_t u = 0; u < 31; ++u) {
        const double dy =
            (static_cast<double>(v) + 0.5 - (static_cast<double>(y) + 0.5) * down) /
            std::max(down, 1.0);
        const double dx =
            (static_cast<double>(u) + 0.5 - (static_cast<double>(x) + 0.5) * across) /
            std::max(across, 1.0);
        total += weight(dy) * weight(dx);
        sum += weight(dy) * weight(dx) * image.rgb[(v * 31 + u) * 3 + c];
      }
    return sum / total;
  };
  for (const auto& [height, width] : {std::pair{10, 10}, {40, 50}, {23, 9}, {1, 1}}) {
    const Image found = resized(image, {0, 0, 23, 31}, height, width);
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(found.rgb[(y * width + x) * 3 + c],
                      expected(height, width, y, x, c), 1.1)
              << height << " x " << width << ": " << y << ", " << x;
  }
}

TEST_F(ImageViewTest, AWindowIsAPartOfTheWhole) {
  const Image image = picture(50, 40);
  const Image whole = resized(image, {3, 2, 41, 37}, 30, 28);
  const Image part = resample(image, {3, 2, 41, 37}, 30, 28, {5, 6, 20, 10});
  for (int64_t y = 0; y < 20; ++y)
    for (int64_t x = 0; x < 30; ++x)
      ASSERT_EQ(part.rgb[y * 30 + x], whole.rgb[(y + 5) * 84 + 18 + x]);
}

TEST_F(ImageViewTest, AnEvaluationSeesTheCentre) {
  const View seen = view(375, 500, {});
  EXPECT_EQ(seen, (View{{0, 0, 375, 500}, 256, 341, 16, 58, 224, false}));
  EXPECT_EQ(view(500, 375, {}).height, 341);
  EXPECT_EQ(view(224, 224, {}), (View{{0, 0, 224, 224}, 224, 224, 0, 0, 224, false}));
  EXPECT_EQ(view(224, 225, {}).height, 256);
  EXPECT_EQ(view(28, 28, {.size = 32}).height, 37);
}

TEST_F(ImageViewTest, PixelsAreNormalised) {
  Image image{1, 1, {0, 51, 255}};
  const Augmentation augmentation{
      .size = 1, .mean = {0.5f, 0.1f, 0}, .std = {2, 0.5f, 4}};
  float pixels[3];
  write_pixels(image, view(1, 1, augmentation), augmentation, pixels);
  EXPECT_EQ(pixels[0], -0.25f);
  EXPECT_EQ(pixels[1], (51 / 255.0f - 0.1f) / 0.5f);
  EXPECT_EQ(pixels[2], 0.25f);
}

TEST_F(ImageViewTest, ChannelsLieBehindEachOther) {
  const Image image = picture(4, 4);
  const auto bytes = bytes_of_view(image, view(4, 4, {.size = 4}));
  for (size_t p = 0; p < 16; ++p)
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(bytes[c * 16 + p], image.rgb[p * 3 + c]);
}

TEST_F(ImageViewTest, AFlipMirrorsRows) {
  const Image image = picture(4, 4);
  View seen = view(4, 4, {.size = 4});
  const auto plain = bytes_of_view(image, seen);
  seen.is_flipped = true;
  const auto flipped = bytes_of_view(image, seen);
  for (size_t row = 0; row < 12; ++row)
    for (size_t x = 0; x < 4; ++x)
      EXPECT_EQ(flipped[row * 4 + x], plain[row * 4 + 3 - x]);
}

TEST_F(ImageViewTest, EveryOtherViewIsFlipped) {
  int num_flipped = 0;
  for (int64_t i = 0; i < 1000; ++i)
    num_flipped += view(8, 8, {.size = 8, .flip = true}, i).is_flipped;
  EXPECT_NEAR(num_flipped, 500, 60);
  EXPECT_FALSE(view(8, 8, {.size = 8}).is_flipped);
}

TEST_F(ImageViewTest, PaddingIsBlack) {
  const Image white{8, 8, std::vector<uint8_t>(192, 255)};
  const auto bytes = bytes_of_view(white, {{0, 0, 8, 8}, 8, 8, -3, 2, 8, false});
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x)
      EXPECT_EQ(bytes[y * 8 + x], y >= 3 && x < 6 ? 255 : 0) << y << ", " << x;
  View flipped{{0, 0, 8, 8}, 8, 8, -3, 2, 8, true};
  EXPECT_EQ(bytes_of_view(white, flipped)[24], 0);
  EXPECT_EQ(bytes_of_view(white, flipped)[31], 255);
}

TEST_F(ImageViewTest, PaddedCropsUseEveryPlace) {
  const Augmentation padded{.size = 32, .crop = Crop::kRandom};
  std::map<int64_t, int> tops, lefts;
  for (int64_t i = 0; i < 1000; ++i) {
    const View seen = view(32, 32, padded, i);
    ASSERT_EQ(seen.height, 32);
    ++tops[seen.top];
    ++lefts[seen.left];
  }
  for (const auto& found : {tops, lefts}) {
    EXPECT_EQ(found.size(), 9u);
    EXPECT_EQ(found.begin()->first, -4);
    EXPECT_EQ(found.rbegin()->first, 4);
  }
}

TEST_F(ImageViewTest, RandomCropsLieInside) {
  const Augmentation random{.size = 24, .crop = Crop::kRandom};
  double least = 1, most = 0, mean = 0;
  bool is_at_bottom = false, is_at_right = false;
  for (int64_t i = 0; i < 1000; ++i) {
    const Box box = view(60, 80, random, i).box;
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1);
    ASSERT_TRUE(box.top + box.height <= 60 && box.left + box.width <= 80);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    ASSERT_TRUE(ratio > 0.7 && ratio < 1.4) << ratio;
    const double part = static_cast<double>(box.height * box.width) / 4800;
    least = std::min(least, part);
    most = std::max(most, part);
    mean += part / 1000;
    is_at_bottom |= box.top > 0 && box.top + box.height == 60;
    is_at_right |= box.left > 0 && box.left + box.width == 80;
  }
  EXPECT_NEAR(least, 0.08, 0.02);
  EXPECT_GT(most, 0.9);
  EXPECT_NEAR(mean, 0.45, 0.05);
  EXPECT_TRUE(is_at_bottom && is_at_right);
}

TEST_F(ImageViewTest, WhereNoTryFitsTheCentreIsTaken) {
  const Augmentation all{.size = 24, .crop = Crop::kRandom};
  EXPECT_EQ(view(10, 1000, all).box, (Box{0, 493, 10, 13}));
  EXPECT_EQ(view(900, 9, all).box, (Box{444, 0, 12, 9}));
  EXPECT_EQ(view(1, 1, all).box, (Box{0, 0, 1, 1}));
}

TEST_F(ImageViewTest, SeedEpochAndImageChooseTheView) {
  const Augmentation random{.size = 24, .crop = Crop::kRandom, .flip = true};
  const auto box = [&](uint64_t seed, int64_t epoch, int64_t image) {
    return view_of(600, 800, random, {seed, epoch, image}).box;
  };
  EXPECT_EQ(box(1, 2, 3), box(1, 2, 3));
  EXPECT_NE(box(1, 2, 3), box(2, 2, 3));
  EXPECT_NE(box(1, 2, 3), box(1, 3, 3));
  EXPECT_NE(box(1, 2, 3), box(1, 2, 4));
  EXPECT_NE(box(1, 2, 3), box(2, 1, 3));
}

// Runs go on from checkpoints: a change here changes what they see.
TEST_F(ImageViewTest, ViewsAreWhatTheyWere) {
  const Augmentation random{.size = 24, .crop = Crop::kRandom, .flip = true};
  const View seen = view_of(600, 800, random, {1, 2, 3});
  EXPECT_EQ(seen.box, (Box{31, 179, 460, 569}));
}

TEST_F(ImageViewTest, TinyAndLongImagesHaveViews) {
  for (const Crop crop : {Crop::kCentre, Crop::kRandom})
    for (const int64_t size : {1, 3, 32})
      for (const auto& [height, width] :
           {std::pair{1, 1}, {1, 3000}, {2000, 1}, {5, 4}}) {
        const Augmentation augmentation{.size = size, .crop = crop, .flip = true};
        std::vector<float> pixels(static_cast<size_t>(3 * size * size), -100);
        write_pixels(picture(height, width), view(height, width, augmentation),
                     augmentation, pixels.data());
        for (const float value : pixels) ASSERT_GT(value, -3);
      }
}

}  // namespace
}  // namespace zero::data::image_view_test
