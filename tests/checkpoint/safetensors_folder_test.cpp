#include "checkpoint/safetensors_folder.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/text.h"
#include "checkpoint/io.h"
#include "checkpoint/safetensors_writer.h"
#include "support.h"

namespace zero::checkpoint::testing::safetensors_folder_test {
namespace {

using ::testing::HasSubstr;

constexpr char kIndex[] = "model.safetensors.index.json";

std::vector<float> iota(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

class SafetensorsFolderTest : public CheckpointTest {
 protected:
  // Tensors of 1, 2, 3, ... in files of at most so many bytes.
  void write(const std::vector<SafeTensorSpec>& tensors, int64_t max_file_bytes) {
    SafetensorsWriter writer(run, tensors, max_file_bytes);
    for (const auto& tensor : tensors) {
      const auto numel = static_cast<size_t>(checked_numel(tensor.shape).value());
      writer.write(tensor.name, 0, iota(numel));
    }
    writer.finish();
  }
  // "a", "b" and "c" in a file each.
  void write_three_files() {
    write({{"a", DType::kFp32, {4}}, {"b", DType::kBf16, {4}}, {"c", DType::kFp16, {4}}},
          1);
  }
  // A file whose only tensor is of this type and has these bytes.
  void write_raw(const std::string& name, DType dtype, const std::string& bytes) {
    SafeTensors tensors = {
        {"w", {dtype, {static_cast<int64_t>(bytes.size()) / size_of(dtype)}}}};
    write_file(run + "/" + name, lay_out_safetensors(tensors, name) + bytes);
  }
  std::vector<float> read(const std::string& name, int64_t begin, size_t numel) {
    std::vector<float> out(numel);
    SafetensorsFolder(run).read(name, begin, out);
    return out;
  }
  std::string open_error() {
    return error_of([&] { SafetensorsFolder folder(run); });
  }
};

TEST_F(SafetensorsFolderTest, AnyRangeOfAnyFileIsRead) {
  for (const int64_t max_file_bytes : {int64_t{1} << 30, int64_t{30}, int64_t{1}}) {
    for (const auto& file : files_of(run)) std::filesystem::remove(run + "/" + file);
    write({{"a", DType::kFp32, {3, 5}},
           {"b", DType::kBf16, {7}},
           {"c", DType::kFp16, {}},
           {"d", DType::kFp64, {2, 2}},
           {"none", DType::kFp32, {0}}},
          max_file_bytes);
    EXPECT_EQ(read("a", 0, 15), iota(15));
    EXPECT_EQ(read("a", 4, 3), (std::vector<float>{5, 6, 7}));
    EXPECT_EQ(read("b", 5, 2), (std::vector<float>{6, 7}));
    EXPECT_EQ(read("c", 0, 1), iota(1));
    EXPECT_EQ(read("d", 1, 3), (std::vector<float>{2, 3, 4}));
    EXPECT_TRUE(read("none", 0, 0).empty());
  }
}

// Of every width more than is converted at once.
TEST_F(SafetensorsFolderTest, LargeTensorsAreReadInPieces) {
  constexpr size_t kNumel = 300000;
  for (const DType dtype : {DType::kFp64, DType::kFp32, DType::kBf16, DType::kFp16}) {
    std::string bytes(kNumel * static_cast<size_t>(size_of(dtype)), '\0');
    std::vector<float> values(kNumel);
    for (size_t i = 0; i < kNumel; ++i) values[i] = static_cast<float>(i * i % 251);
    SafetensorsWriter writer(run, {{"w", dtype, {kNumel}}}, INT64_MAX);
    writer.write("w", 0, values);
    writer.finish();
    static int num_pieces;
    num_pieces = 0;
    set_work_listener([](int64_t) { ++num_pieces; });
    EXPECT_EQ(read("w", 7, kNumel - 7),
              std::vector<float>(values.begin() + 7, values.end()))
        << name_of(dtype);
    set_work_listener(nullptr);
    EXPECT_GT(num_pieces, 2);
    std::filesystem::remove(run + "/model.safetensors");
  }
}

TEST_F(SafetensorsFolderTest, OnlyFloatingPointIsRead) {
  write_raw("model.safetensors", DType::kInt64, std::string(16, '\0'));
  EXPECT_THAT(error_of([&] { read("w", 0, 2); }),
              HasSubstr("w: is of type int64, floating-point values are wanted"));
}

TEST_F(SafetensorsFolderTest, RangesOutsideATensorAreRefused) {
  write_three_files();
  EXPECT_THAT(error_of([&] { read("a", 1, 4); }),
              HasSubstr("a: has 4 elements, 4 were wanted from 1"));
  EXPECT_THAT(error_of([&] { read("a", -1, 1); }), HasSubstr("a: has 4 elements"));
  EXPECT_THAT(error_of([&] { read("a", 5, 0); }), HasSubstr("a: has 4 elements"));
  EXPECT_THAT(error_of([&] { read("d", 0, 1); }), HasSubstr("d: is not among"));
}

TEST_F(SafetensorsFolderTest, AFileThatShrankNamesTheTensor) {
  write({{"a", DType::kBf16, {100}}}, INT64_MAX);
  SafetensorsFolder folder(run);
  std::filesystem::resize_file(run + "/model.safetensors", 100);
  std::vector<float> out(100);
  EXPECT_THAT(error_of([&] { folder.read("a", 0, out); }), HasSubstr("a: is cut off"));
}

TEST_F(SafetensorsFolderTest, TheSingleFileComesBeforeAnIndex) {
  write_three_files();
  write_raw("model.safetensors", DType::kFp32, std::string(4, '\0'));
  const SafetensorsFolder folder(run);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"model.safetensors"});
  EXPECT_TRUE(folder.tensors().contains("w"));
}

TEST_F(SafetensorsFolderTest, PickleIsRefusedWithTheCure) {
  for (const char* name : {"pytorch_model.bin", "training_args.bin", "optimizer.pt"})
    write_file(run + "/" + name, "");
  EXPECT_THAT(open_error(), HasSubstr("when it is read: pytorch_model.bin;"));
  EXPECT_THAT(open_error(), HasSubstr("save_pretrained("));
  std::filesystem::remove(run + "/pytorch_model.bin");
  write_file(run + "/consolidated.00.pth", "");
  EXPECT_THAT(open_error(), HasSubstr("when it is read: consolidated.00.pth;"));
}

TEST_F(SafetensorsFolderTest, AFolderWithoutWeightsSaysWhatIsLookedFor) {
  EXPECT_THAT(open_error(),
              HasSubstr("no model.safetensors and no model.safetensors.index.json"));
}

TEST_F(SafetensorsFolderTest, MissingFilesAreAllNamed) {
  write_three_files();
  std::filesystem::remove(run + "/model-00001-of-00003.safetensors");
  std::filesystem::remove(run + "/model-00003-of-00003.safetensors");
  EXPECT_THAT(open_error(), HasSubstr("lacks files that model.safetensors.index.json "
                                      "names: model-00001-of-00003.safetensors, "
                                      "model-00003-of-00003.safetensors"));
}

// Whoever wants one tensor needs neither the others nor their files.
TEST_F(SafetensorsFolderTest, WhatDoesNotCountIsNotThere) {
  const auto is_b = [](const std::string& name) { return name == "b"; };
  const auto names = [&] {
    const SafetensorsFolder folder(run, "", is_b);
    return std::pair(folder.tensors().size(), folder.tensors().count("b"));
  };
  write({{"a", DType::kFp32, {4}}, {"b", DType::kFp32, {4}}}, INT64_MAX);
  EXPECT_EQ(names(), std::pair(1UL, 1UL));
  std::filesystem::remove(run + "/model.safetensors");
  write_three_files();
  EXPECT_EQ(names(), std::pair(1UL, 1UL));
  std::filesystem::remove(run + "/model-00001-of-00003.safetensors");
  EXPECT_EQ(names(), std::pair(1UL, 1UL));
  std::filesystem::remove(run + "/model-00002-of-00003.safetensors");
  EXPECT_THAT(error_of([&] { names(); }), HasSubstr("lacks files"));
}

TEST_F(SafetensorsFolderTest, OfManyMissingFilesFiftyAreNamed) {
  std::string index = "{\"weight_map\":{";
  for (int i = 100; i < 151; ++i)
    index += text_of(i > 100 ? "," : "", "\"", i, "\":\"", i, ".safetensors\"");
  write_file(run + "/" + kIndex, index + "}}");
  EXPECT_THAT(open_error(), HasSubstr(", 149.safetensors and 1 more; was a download"));
}

TEST_F(SafetensorsFolderTest, DamageHasACure) {
  write_file(run + "/model.safetensors", "1234567");
  EXPECT_THAT(open_error(), HasSubstr("; copy or download the folder again"));
  write_file(run + "/model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(open_error(), HasSubstr("; fetch the file itself: git lfs pull"));
}

TEST_F(SafetensorsFolderTest, TensorsThatTheIndexHasWrongAreAllNamed) {
  write_three_files();
  write_file(run + "/" + kIndex, R"({"weight_map":{
    "a":"model-00001-of-00003.safetensors","b":"model-00001-of-00003.safetensors",
    "c":"model-00003-of-00003.safetensors","d":"model-00002-of-00003.safetensors"}})");
  EXPECT_EQ(open_error(),
            run + "/" + kIndex +
                ": names tensors that are not in their files: b "
                "(model-00001-of-00003.safetensors), d "
                "(model-00002-of-00003.safetensors); does not name tensors of its files: "
                "b (model-00002-of-00003.safetensors); are these files of one model?");
}

TEST_F(SafetensorsFolderTest, TheIndexLeadsToNoOtherFolder) {
  write_raw("outside", DType::kFp32, std::string(4, '\0'));
  std::filesystem::create_directory(run + "/model");
  for (const char* name : {"../outside", "/etc/passwd", "..", ".", "", "model/../outside",
                           "outside\\u0000", "a\\nb"}) {
    write_file(run + "/" + kIndex, text_of(R"({"weight_map":{"w":")", name, "\"}}"));
    EXPECT_THAT(open_error(), HasSubstr("w: lies in ")) << name;
  }
}

TEST_F(SafetensorsFolderTest, LinksAreRefused) {
  write_raw("real", DType::kFp32, std::string(4, '\0'));
  std::filesystem::create_symlink("real", run + "/link");
  write_file(run + "/" + kIndex, R"({"weight_map":{"w":"link"}})");
  EXPECT_THAT(open_error(), HasSubstr("symbolic link"));
  std::filesystem::create_symlink("real", run + "/model.safetensors");
  EXPECT_THAT(open_error(), HasSubstr("symbolic link"));
}

TEST_F(SafetensorsFolderTest, TheIndexIsStrictJson) {
  write_raw("real", DType::kFp32, std::string(4, '\0'));
  for (const char* index :
       {"", "[]", "1", "{}", R"({"weight_map":{}})", R"({"weight_map":[]})",
        R"({"weight_map":1})", R"({"weight_map":{"w":1}})", R"({"weight_map":{"w":{}}})",
        R"({"weight_map":{"w":"real","w":"real"}})",
        R"({"weight_map":{"w":"real"},"weight_map":{"w":"real"}})",
        R"({"weight_map":{"w":"real"}} x)"}) {
    write_file(run + "/" + kIndex, index);
    EXPECT_THROW(SafetensorsFolder folder(run), CheckpointError) << index;
  }
  for (const char* index :
       {R"({"weight_map":{"w":"real"}})",
        R"({"metadata":{"total_size":4,"more":[{"a":1}]},"weight_map":{"w":"real"},"x":[]})"}) {
    write_file(run + "/" + kIndex, index);
    EXPECT_NO_THROW(SafetensorsFolder folder(run)) << index;
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::safetensors_folder_test
