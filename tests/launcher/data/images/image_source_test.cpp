#include "launcher/data/images/image_source.h"

#include <atomic>
#include <thread>

#include "tests/launcher/data/images/image_files.h"

namespace zero::data::image_source_test {
namespace {

using Strings = std::vector<std::string>;
using Labels = std::vector<int64_t>;

class ImageFolderTest : public ImageFiles {};

TEST_F(ImageFolderTest, ClassesAndFilesAreSorted) {
  const ImageSource source({two_classes()});
  EXPECT_EQ(source.class_names(), (Strings{"a", "b"}));
  EXPECT_EQ(source.num_classes(), 2);
  EXPECT_EQ(names_of(source), (Strings{"a/1.png", "a/deep/2.JPG", "b/3.jpeg"}));
  EXPECT_EQ(labels_of(source), (Labels{0, 0, 1}));
  EXPECT_EQ(source.read(0), picture(5, 4, 1));
  EXPECT_EQ(source.read(2).height, 9);
  EXPECT_EQ(source.describe(), "JPEG and PNG, 3 images, 2 classes");
  EXPECT_EQ(source.where(), path("two"));
  EXPECT_THAT(source.warnings(), ::testing::IsEmpty());
  source.check_ids(1000);
}

// "a-b" comes before "a/": by class all the same.
TEST_F(ImageFolderTest, LabelsFollowTheNamesOfClasses) {
  const std::string image = png(picture(2, 2));
  write("f/a-b/1.png", image);
  write("f/a/1.png", image);
  const ImageSource source({path("f")});
  EXPECT_EQ(source.class_names(), (Strings{"a", "a-b"}));
  EXPECT_EQ(names_of(source), (Strings{"a/1.png", "a-b/1.png"}));
}

TEST_F(ImageFolderTest, OtherFilesAreLeftOutWithAWarning) {
  two_classes();
  write("two/a/notes.txt", "x");
  write("two/README", "x");
  write("two/model.bin", "x");
  write("two/a/.hidden.png", "x");
  write("two/.git/1.png", "x");
  const ImageSource source({path("two")});
  EXPECT_EQ(source.num_images(), 3);
  ASSERT_EQ(source.warnings().size(), 1u);
  EXPECT_THAT(source.warnings()[0], ::testing::HasSubstr("README (and 2 more)"));
}

TEST_F(ImageFolderTest, RefusesOtherLayouts) {
  two_classes();
  std::filesystem::create_directories(path("two/c"));
  expect_no_source(path("two"), {"class holds no images", path("two/c"), "remove it"});
  write("flat/1.png", png(picture(2, 2)));
  expect_no_source(path("flat"), {"lies in no folder of a class", path("flat/1.png"),
                                  "FOLDER/cat/1.jpg"});
  write("text/1.txt", "x");
  expect_no_source(path("text"), {"no folders of classes", path("text")});
  expect_no_source(path("flat/1.png"), {"one image has no label"});
  expect_no_source(path("text/1.txt"), {"neither an image nor one of CIFAR"});
  expect_no_source(path("none"), {"does not exist"});
  expect_error([] { ImageSource({}); }, {"no data is given"});
}

TEST_F(ImageFolderTest, ImagesWithoutLabelsLieAnywhere) {
  write("flat/2.png", png(picture(2, 2)));
  write("flat/1.png", png(picture(3, 3)));
  write("flat/deep/3.png", png(picture(4, 4)));
  const ImageSource source({path("flat"), path("flat/1.png")}, ImageLabels::kNone);
  EXPECT_EQ(names_of(source), (Strings{path("flat/1.png"), path("flat/2.png"),
                                       path("flat/deep/3.png"), path("flat/1.png")}));
  const ImageSource one({path("flat")}, ImageLabels::kNone);
  EXPECT_EQ(names_of(one), (Strings{"1.png", "2.png", "deep/3.png"}));
  EXPECT_EQ(source.label(3), kNoLabel);
  EXPECT_EQ(source.read(3), picture(3, 3));
  EXPECT_EQ(source.num_classes(), 0);
  EXPECT_EQ(source.describe(), "JPEG and PNG, 4 images, no labels");
  std::filesystem::create_directories(path("empty"));
  expect_error([&] { ImageSource({path("empty")}, ImageLabels::kNone); },
               {"holds no images", path("empty")});
}

TEST_F(ImageFolderTest, ASquareThatIsNotTooLargeTellsTheSize) {
  const auto size = [&](int64_t height, int64_t width) {
    write("f/a/1.png", png(picture(height, width)));
    return ImageSource({path("f")}).image_size();
  };
  EXPECT_EQ(size(224, 224), 224);
  EXPECT_EQ(size(225, 225), 0);
  EXPECT_EQ(size(224, 223), 0);
  EXPECT_EQ(size(8, 8), 8);
  EXPECT_EQ(size(7, 7), 0) << "no model is made for so few";
}

// Of a model that has its weights nothing else is to be had.
TEST_F(ImageFolderTest, MoreClassesThanTheModelHasAreRefused) {
  const ImageSource source({two_classes()});
  EXPECT_NO_THROW(source.check_ids(2));
  expect_error([&] { source.check_ids(1); },
               {"2 classes, the model 1", "data with at most 1 class",
                "a new model may have --vocab 2"});
}

TEST_F(ImageFolderTest, SeveralPathsHaveTheSameClasses) {
  two_classes("x");
  two_classes("y");
  const ImageSource source({path("x"), path("y")});
  EXPECT_EQ(labels_of(source), (Labels{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(source.read(3), picture(5, 4, 1));
  EXPECT_EQ(source.where(), path("x") + " and 1 more");
  write("y/c/1.png", png(picture(2, 2)));
  expect_error(
      [&] {
        ImageSource({path("x"), path("y")});
      },
      {"class 2 is 'missing' there and 'c' here", path("x"), path("y")});
  write("train.bin", record({1}, picture(32, 32)));
  expect_error(
      [&] {
        ImageSource({path("x"), path("train.bin")});
      },
      {"mixes two kinds", "JPEG and PNG", "CIFAR-10"});
}

TEST_F(ImageFolderTest, ADamagedImageIsNamed) {
  two_classes();
  const std::string damaged = jpeg(picture(40, 40)).substr(0, 900);
  write("two/a/0.jpg", damaged);
  const ImageSource source({path("two")});
  source.check_ids(1000);
  expect_error([&] { source.read(0); }, {"damaged", path("two/a/0.jpg")});
}

TEST_F(ImageFolderTest, ACheckFindsWhatIsNoImage) {
  two_classes();
  write("two/b/4.png", "not a picture");
  const ImageSource source({path("two")});
  expect_error([&] { source.check_ids(1000); },
               {"neither JPEG nor PNG", path("two/b/4.png")});
  write("two/b/4.png", "");
  expect_error([&] { ImageSource({path("two")}).check_ids(1000); },
               {"image file is empty"});
}

TEST_F(ImageFolderTest, AChangedImageIsNoticed) {
  const ImageSource source({two_classes()});
  write("two/a/1.png", png(picture(15, 14)));
  expect_error([&] { source.read(0); }, {"changed since this run", path("two/a/1.png")});
  expect_error([&] { source.check_ids(1000); }, {"changed since this run"});
}

TEST_F(ImageFolderTest, TheHashIsThatOfNamesAndContents) {
  const auto hash = [&](const std::string& name) {
    return ImageSource({path(name)}).content_hash();
  };
  two_classes("x");
  two_classes("y");
  EXPECT_EQ(hash("x"), hash("y"));
  write("y/a/1.png", png(picture(5, 4, 2)));
  EXPECT_NE(hash("x"), hash("y"));
  two_classes("z");
  std::filesystem::rename(path("z/b"), path("z/c"));
  EXPECT_NE(hash("x"), hash("z"));
}

TEST_F(ImageFolderTest, AHashOfManyFilesReadsEachOnce) {
  for (int i = 0; i < 600; ++i)
    write("many/a/" + std::to_string(i) + ".png", std::string(10, 'a'));
  const ImageSource source({path("many")});
  int64_t bytes = 0;
  const uint64_t hash = source.content_hash([&](int64_t count) { bytes += count; });
  EXPECT_EQ(bytes, 6000);
  EXPECT_EQ(source.num_bytes(), 6000);
  write("many/a/599.png", std::string(10, 'b'));
  EXPECT_NE(ImageSource({path("many")}).content_hash(), hash);
}

TEST_F(ImageFolderTest, MayBeReadBySeveralThreads) {
  const ImageSource source({two_classes()});
  std::vector<Image> expected;
  for (int64_t i = 0; i < 3; ++i) expected.push_back(source.read(i));
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 300; ++i)
        num_wrong += !(source.read(i % 3) == expected[static_cast<size_t>(i % 3)]);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

class CifarTest : public ImageFiles {};

TEST_F(CifarTest, AFolderGivesItsTrainingFiles) {
  write("c/data_batch_2.bin", record({9}, picture(32, 32, 2)));
  write("c/data_batch_1.bin",
        record({3}, picture(32, 32, 0)) + record({0}, picture(32, 32, 1)));
  write("c/test_batch.bin", record({5}, picture(32, 32, 3)));
  write("c/batches.meta.txt",
        "plane\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const ImageSource source({path("c")});
  EXPECT_EQ(labels_of(source), (Labels{3, 0, 9}));
  EXPECT_EQ(source.class_names()[9], "truck");
  EXPECT_EQ(source.describe(), "CIFAR-10, 3 images, 10 classes");
  EXPECT_EQ(source.num_bytes(), 3 * 3073);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(source.read(i), picture(32, 32, i));
  const ImageSource tested({path("c/test_batch.bin")});
  EXPECT_EQ(names_of(tested), (Strings{"test_batch.bin:0"}));
  EXPECT_EQ(labels_of(tested), (Labels{5}));
  EXPECT_EQ(ImageSource({path("c")}, ImageLabels::kNone).label(0), kNoLabel);
}

TEST_F(CifarTest, OfTwoLabelsTheFineOneCounts) {
  write("c/train.bin", record({3, 77}, picture(32, 32, 4)));
  const ImageSource source({path("c")});
  EXPECT_EQ(labels_of(source), (Labels{77}));
  EXPECT_EQ(source.num_classes(), 100);
  EXPECT_EQ(source.read(0), picture(32, 32, 4));
}

TEST_F(CifarTest, WhereTheLengthFitsBothTheNameDecides) {
  const std::string zeros(3073 * 3074, '\0');
  write("train.bin", zeros);
  write("data_batch_1.bin", zeros);
  EXPECT_EQ(ImageSource({path("train.bin")}).num_images(), 3073);
  EXPECT_EQ(ImageSource({path("data_batch_1.bin")}).num_images(), 3074);
}

TEST_F(CifarTest, RefusesWhatDoesNotFit) {
  write("data_batch_1.bin", record({1}, picture(32, 32)) + "x");
  write("a.bin", record({1}, picture(32, 32)) + "xyz");
  expect_no_source(path("a.bin"), {"3076 bytes", "incomplete", "byte 3073"});
  write("a.bin", record({1}, picture(32, 32)) + record({10}, picture(32, 32)));
  expect_no_source(path("a.bin"), {"label 10 of image 1", "10 classes", "byte 3073"});
  write("test.bin", record({1, 100}, picture(32, 32)));
  expect_no_source(path("test.bin"), {"label 100 of image 0", "byte 1"});
  write("a.bin", "");
  expect_no_source(path("a.bin"), {"empty"});
  write("c/test_batch.bin", record({1}, picture(32, 32)));
  expect_no_source(
      path("c"), {"data_batch_*.bin", "name the file itself", path("c/test_batch.bin")});
  write("c/train.bin", record({1}, picture(32, 32)));
  write("c/batches.meta.txt", "one\ntwo\n");
  expect_no_source(path("c"), {"names 2 classes", path("c/batches.meta.txt")});
}

class NpyTest : public ImageFiles {
 protected:
  // Two images of 2 x 3 pixels.
  std::string write_arrays(const std::string& images, const std::string& labels) const {
    write("n/images.npy", images);
    write("n/labels.npy", labels);
    return path("n");
  }
  static std::string values(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(i * 5);
    return bytes;
  }
  static std::string two_images() { return npy("|u1", "(2, 2, 3, 3)", values(36)); }
  static std::string two_labels() {
    return npy("<i8", "(2,)", bytes_of(std::vector<int64_t>{4, 0}));
  }
  static std::vector<uint8_t> bytes_from(int first, int step, int count) {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < count; ++i)
      bytes.push_back(static_cast<uint8_t>((first + i * step) * 5));
    return bytes;
  }
  void expect_refused(const std::string& images, const std::string& labels,
                      const Strings& parts) const {
    expect_no_source(write_arrays(images, labels), parts);
  }
};

TEST_F(NpyTest, ReadsBothLayoutsAndGray) {
  const ImageSource last({write_arrays(two_images(), two_labels())});
  EXPECT_EQ(last.describe(), "NPY, 2 images, 5 classes");
  EXPECT_EQ(labels_of(last), (Labels{4, 0}));
  EXPECT_EQ(last.name(1), "images.npy:1");
  const ImageSource both({path("n"), path("n")});
  EXPECT_EQ(both.name(3), path("n/images.npy:1"));
  EXPECT_EQ(last.read(1), (Image{2, 3, bytes_from(18, 1, 18)}));
  EXPECT_EQ(last.class_names()[4], "4");
  const ImageSource first(
      {write_arrays(npy("|u1", "(2, 3, 2, 2)", values(24)), two_labels())});
  EXPECT_EQ(first.read(1).rgb[0], 60);  // red, green, blue lie 4 values apart
  EXPECT_EQ(first.read(1).rgb[1], 80);
  EXPECT_EQ(first.read(1).rgb[2], 100);
  EXPECT_EQ(first.read(1).rgb[3], 65);
  const ImageSource gray(
      {write_arrays(npy("|u1", "(2, 1, 2, 2)", values(8)), two_labels())});
  EXPECT_EQ(gray.read(1).rgb,
            (std::vector<uint8_t>{20, 20, 20, 25, 25, 25, 30, 30, 30, 35, 35, 35}));
}

TEST_F(NpyTest, ReadsEveryVersionAndTypeOfLabels) {
  for (const int version : {1, 2, 3}) {
    const auto labels = npy("<i4", "(2,)", bytes_of(std::vector<int32_t>{1, 0}), version);
    const auto images = npy("|u1", "(2,2,3,3)", values(36), version);
    EXPECT_EQ(labels_of(ImageSource({write_arrays(images, labels)})), (Labels{1, 0}));
  }
  for (const char* type : {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"}) {
    std::string bytes(static_cast<size_t>(2 * (type[2] - '0')), '\0');
    bytes[0] = 7;
    const auto labels = npy(type, "(2,)", bytes);
    EXPECT_EQ(labels_of(ImageSource({write_arrays(two_images(), labels)})), (Labels{7, 0}))
        << type;
  }
}

TEST_F(NpyTest, ShardsMayLackTheLargestLabel) {
  write("a/images.npy", two_images());
  write("a/labels.npy", npy("|u1", "(2,)", std::string("\x01\x00", 2)));
  write_arrays(two_images(), two_labels());
  EXPECT_EQ(ImageSource({path("a"), path("n")}).num_classes(), 5);
}

TEST_F(NpyTest, LabelsAreNotNeededWhereNobodyAsks) {
  write("m/images.npy", two_images());
  EXPECT_EQ(ImageSource({path("m")}, ImageLabels::kNone).label(1), kNoLabel);
  expect_no_source(path("m"), {"no labels beside images.npy", path("m/labels.npy")});
  expect_no_source(path("m/images.npy"), {"name the folder"});
}

TEST_F(NpyTest, RefusesOtherArrays) {
  const std::string labels = two_labels();
  expect_refused(npy("|u1", "(2, 2, 3, 3)", values(36), 1, "True"), labels,
                 {"Fortran's order", "images.npy, byte 10", "ascontiguousarray"});
  expect_refused(npy("<f4", "(2, 2, 3, 3)", values(144)), labels,
                 {"type f4, not uint8", "astype(numpy.uint8)"});
  expect_refused(npy("|u1", "(2, 2, 9)", values(36)), labels, {"shape (2, 2, 9)"});
  expect_refused(npy("|u1", "(0, 2, 3, 3)", ""), labels, {"N above 0"});
  expect_refused(npy("|u1", "(2, 2, 3, 4)", values(48)), labels, {"C of 1 or 3"});
  expect_refused(npy("|u1", "(2, 2, 3, 3)", values(35)), labels, {"35 bytes follow"});
  expect_refused(npy("|u1", "(2, 4611686018427387904, 4611686018427387904, 3)", ""),
                 labels, {"0 bytes follow"});
  expect_refused(npy("|u1", "(2, -2, 3, 3)", values(36)), labels, {"does not tell"});
  expect_refused(npy("|u1", "(2, 2, 3, 3", values(36)), labels, {"does not tell"});
  expect_refused(npy("|u1", "(2, 2, 3, 3)", values(36), 4), labels, {"version 4"});
  expect_refused("PK", labels, {"too short"});
  expect_refused(std::string(50, 'x'), labels, {"no NumPy array", "byte 0"});
  expect_refused(two_images().substr(0, 40), labels, {"within the header"});
}

TEST_F(NpyTest, RefusesLabelsThatDoNotFit) {
  const auto labels = [](const std::string& type, const auto& values) {
    return npy(type, "(2,)", bytes_of(values));
  };
  using Int64s = std::vector<int64_t>;
  expect_refused(two_images(), labels("<i8", Int64s{1, -1}),
                 {"label -1 of image 1", "number the classes"});
  expect_refused(two_images(), labels("<i8", Int64s{1, 1 << 20}), {"label 1048576"});
  expect_refused(two_images(), labels("<u8", std::vector<uint64_t>{1, ~uint64_t{0}}),
                 {"label -1"});
  expect_refused(two_images(), labels(">i8", Int64s{0, 0}), {"big-endian"});
  expect_refused(two_images(), labels("<f8", std::vector<double>{0, 1}), {"type f8"});
  expect_refused(two_images(), npy("<i8", "(1,)", bytes_of(Int64s{0})),
                 {"shape (1)", "2 images"});
}

}  // namespace
}  // namespace zero::data::image_source_test
