#include "launcher/data/images/image_sampler.h"

#include <algorithm>
#include <map>

#include "offload/thread_pool.h"
#include "tests/launcher/data/images/image_files.h"

namespace zero::data::image_sampler_test {
namespace {

using Numbers = std::vector<int64_t>;

class ImageSamplerTest : public ImageFiles {
 protected:
  // 40 images of each of three classes, one class behind the other.
  ImageSource three_classes() const {
    for (int i = 0; i < 120; ++i)
      write("t/" + std::to_string(i / 40) + "/" + std::to_string(100 + i) + ".png",
            png(picture(12, 10, i)));
    return ImageSource({path("t")});
  }

  static Numbers numbers(const ImageSampler& sampler, int64_t first, int64_t count) {
    Numbers found;
    for (int64_t i = first; i < first + count; ++i)
      found.push_back(sampler.image_number(i));
    return found;
  }

  static constexpr Augmentation kTrained{.size = 8, .crop = Crop::kRandom, .flip = true};

  struct Rows {
    std::vector<float> pixels;
    Numbers labels;
    bool operator==(const Rows&) const = default;
  };

  static Rows rows(const ImageSampler& sampler, const Numbers& indices, int num_threads) {
    Rows found{std::vector<float>(indices.size() * 192), Numbers(indices.size())};
    ThreadPool threads(num_threads);
    sampler.read_rows(indices, found.pixels.data(), found.labels.data(), threads);
    return found;
  }
};

TEST_F(ImageSamplerTest, AShuffledEpochUsesEveryImageOnce) {
  const ImageSource source = three_classes();
  const ImageSampler sampler(source, kTrained, {.seed = 5});
  EXPECT_EQ(sampler.num_samples(), 120);
  EXPECT_EQ(sampler.num_pixels(), 192);
  Numbers first = numbers(sampler, 0, 120), second = numbers(sampler, 120, 120);
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  Numbers all(120);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(first, all);
  EXPECT_EQ(second, all);
}

TEST_F(ImageSamplerTest, UnshuffledTheOrderIsThatOfTheData) {
  const ImageSource source = three_classes();
  const ImageSampler sampler(source, {}, {.shuffle = false});
  EXPECT_EQ(numbers(sampler, 119, 3), (Numbers{119, 0, 1}));
}

TEST_F(ImageSamplerTest, HeldOutImagesAreOfAllClassesAndNeverTrainedOn) {
  const ImageSource source = three_classes();
  const Split split = split_samples(source.num_images(), 0.25);
  const ImageSampler held_out(source, {}, {.shuffle = false, .range = split.held_out});
  std::map<int64_t, int> uses, classes;
  for (const int64_t number : numbers(held_out, 0, 30)) {
    ++uses[number];
    ++classes[source.label(number)];
  }
  EXPECT_EQ(classes.size(), 3u);
  for (const auto& [label, count] : classes) EXPECT_GT(count, 4) << label;
  for (const uint64_t seed : {1, 2}) {
    const ImageSampler trained(source, {}, {.seed = seed, .range = split.trained});
    EXPECT_EQ(trained.num_samples(), 90);
    auto all = uses;
    for (const int64_t number : numbers(trained, 0, 90)) ++all[number];
    EXPECT_EQ(all.size(), 120u);
    for (const auto& [number, count] : all) EXPECT_EQ(count, 1) << number;
  }
}

TEST_F(ImageSamplerTest, RowsDoNotDependOnThreadsOrNeighbours) {
  const ImageSource source = three_classes();
  const ImageSampler sampler(source, kTrained, {.seed = 3});
  Numbers indices(50);
  std::iota(indices.begin(), indices.end(), 100);
  const Rows found = rows(sampler, indices, 1);
  EXPECT_EQ(rows(sampler, indices, 4), found);
  for (size_t row = 0; row < 50; row += 7) {
    const Rows alone = rows(sampler, {indices[row]}, 1);
    EXPECT_EQ(alone.labels[0], found.labels[row]);
    EXPECT_TRUE(std::ranges::equal(alone.pixels,
                                   std::span(found.pixels).subspan(row * 192, 192)));
    EXPECT_EQ(found.labels[row], source.label(sampler.image_number(indices[row])));
  }
}

TEST_F(ImageSamplerTest, AnImageIsSeenDifferentlyInEachEpoch) {
  write("o/a/1.png", png(picture(40, 40)));
  const ImageSource source({path("o")});
  const ImageSampler trained(source, kTrained, {.seed = 3});
  EXPECT_NE(rows(trained, {0}, 1), rows(trained, {1}, 1));
  const ImageSampler evaluated(source, {.size = 8}, {.seed = 3});
  EXPECT_EQ(rows(evaluated, {0}, 1), rows(evaluated, {1}, 1));
}

TEST_F(ImageSamplerTest, OfSeveralErrorsTheLowestRowsIsThrown) {
  three_classes();
  for (const int i : {103, 105, 250}) {
    const std::string name = "t/0/" + std::to_string(i) + ".png";
    write(name, "damaged");
  }
  const ImageSource source({path("t")});
  const ImageSampler sampler(source, kTrained, {.shuffle = false});
  for (const int num_threads : {1, 2, 4})
    for (int time = 0; time < 5; ++time)
      expect_error(
          [&] {
            rows(sampler, {0, 41, 5, 3, 6}, num_threads);
          },
          {"neither JPEG nor PNG", path("t/0/105.png")});
}

}  // namespace
}  // namespace zero::data::image_sampler_test
