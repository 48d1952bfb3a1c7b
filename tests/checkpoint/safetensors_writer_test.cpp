#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "checkpoint/safetensors_folder.h"
#include "support.h"

namespace zero::checkpoint::testing::safetensors_writer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Files = std::vector<std::vector<size_t>>;

class SafetensorsWriterTest : public CheckpointTest {
 protected:
  const std::vector<SafeTensorSpec> specs = {{"wte", DType::kFp32, {4, 3}},
                                             {"h.0", DType::kBf16, {5}},
                                             {"h.1", DType::kBf16, {6}}};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

  std::span<const float> first(size_t n) const { return std::span(values).first(n); }

  void write(int64_t max_file_bytes, Io& io = system_io()) {
    SafetensorsWriter writer(run, specs, max_file_bytes, io);
    fill(writer);
  }
  void fill(SafetensorsWriter& writer) {
    writer.write("wte", 0, values);
    writer.write("h.0", 0, first(5));
    writer.write("h.1", 0, first(6));
    writer.finish();
  }
  void clear() {
    for (const auto& file : files_of(run)) std::filesystem::remove(run + "/" + file);
  }
};

TEST(DealToFilesTest, AFileEndsWhereTheNextTensorWouldPassTheLimit) {
  EXPECT_EQ(deal_to_files({6, 6, 2, 6, 2, 2}, 10), (Files{{0}, {1, 2}, {3, 4, 5}}));
  EXPECT_EQ(deal_to_files({5, 5, 1}, 10), (Files{{0, 1}, {2}}));
}

// As huggingface_hub does: what follows a large one still joins what came before it.
TEST(DealToFilesTest, ALargeTensorHasAFileOfItsOwn) {
  EXPECT_EQ(deal_to_files({3, 11, 3}, 10), (Files{{1}, {0, 2}}));
  EXPECT_EQ(deal_to_files({11, 12}, 10), (Files{{0}, {1}}));
}

TEST(DealToFilesTest, NothingStillMakesAFile) {
  EXPECT_EQ(deal_to_files({}, 10), Files{{}});
  EXPECT_EQ(deal_to_files({0, 0}, 0), (Files{{0, 1}}));
}

// As safetensors.numpy.save() of version 0.8.0 writes these tensors.
TEST_F(SafetensorsWriterTest, OneFileIsTheReferenceWritersToTheByte) {
  SafetensorsWriter writer(run, {{"b", DType::kFp16, {2}}, {"a", DType::kFp32, {1, 2}}},
                           INT64_MAX);
  writer.write("b", 0, std::vector<float>{1, -2});
  writer.write("a", 0, std::vector<float>{0.5f, 3});
  writer.finish();
  EXPECT_THAT(files_of(run), ElementsAre("model.safetensors"));
  EXPECT_EQ(read_file(run + "/model.safetensors"),
            std::string("\x90\0\0\0\0\0\0\0", 8) +
                R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],)"
                R"("data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],)"
                R"("data_offsets":[8,12]}}   )" +
                std::string("\0\0\0\x3f\0\0\x40\x40\0\x3c\0\xc0", 12));
}

TEST_F(SafetensorsWriterTest, SeveralFilesHaveAnIndex) {
  write(50);
  EXPECT_THAT(files_of(run), ElementsAre("model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json"));
  EXPECT_EQ(read_file(run + "/model.safetensors.index.json"),
            R"({
  "metadata": {
    "total_parameters": 23,
    "total_size": 70
  },
  "weight_map": {
    "h.0": "model-00002-of-00002.safetensors",
    "h.1": "model-00002-of-00002.safetensors",
    "wte": "model-00001-of-00002.safetensors"
  }
}
)");
}

TEST_F(SafetensorsWriterTest, RangesComeInAnyOrder) {
  SafetensorsWriter writer(run, specs, 1);
  writer.write("h.1", 4, first(2));
  writer.write("wte", 6, first(6));
  writer.write("h.1", 0, first(2));
  writer.write("wte", 0, first(6));
  writer.write("h.0", 0, first(5));
  writer.write("h.1", 2, first(2));
  writer.finish();
  SafetensorsFolder folder(run);
  std::vector<float> wte(12), h1(6);
  folder.read("wte", 0, wte);
  folder.read("h.1", 0, h1);
  EXPECT_THAT(wte, ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(h1, ElementsAre(1, 2, 1, 2, 1, 2));
}

TEST_F(SafetensorsWriterTest, ValuesAreRoundedToNearestEven) {
  SafetensorsWriter writer(run, {{"w", DType::kBf16, {4}}}, INT64_MAX);
  writer.write("w", 0,
               std::vector<float>{1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-8f + 0x1p-20f,
                                  std::bit_cast<float>(0x7f800001u)});
  writer.finish();
  std::vector<float> read(4);
  SafetensorsFolder(run).read("w", 0, read);
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(read[1], 1 + 0x2p-7f);
  EXPECT_EQ(read[2], 1 + 0x1p-7f);
  EXPECT_TRUE(std::isnan(read[3]));
}

TEST_F(SafetensorsWriterTest, ManyMebibytesAreSyncedOnTheWay) {
  const std::vector<float> part(4 << 20);
  const int64_t numel = kSyncBytes / 4 + 2 * std::ssize(part);
  NoDisk io;
  SafetensorsWriter writer(run, {{"w", DType::kFp32, {numel}}}, INT64_MAX, io);
  for (int64_t begin = 0; begin < numel; begin += std::ssize(part))
    writer.write("w", begin, part);
  EXPECT_EQ(io.num_syncs, 1);
}

TEST_F(SafetensorsWriterTest, EveryElementIsWrittenOnce) {
  SafetensorsWriter writer(run, specs, INT64_MAX);
  writer.write("wte", 0, first(12));
  writer.write("h.0", 0, first(5));
  writer.write("h.1", 0, first(2));
  writer.write("h.1", 3, first(3));
  EXPECT_THAT(error_of([&] { writer.finish(); }),
              HasSubstr("h.1: element 2 of 6 was never written"));
  EXPECT_THAT(error_of([&] { writer.write("h.1", 1, first(2)); }),
              HasSubstr("h.1: some of the elements 1 to 2 are given twice"));
  EXPECT_THAT(error_of([&] { writer.write("h.1", 2, first(2)); }), HasSubstr("h.1"));
  writer.write("h.1", 2, first(1));
  writer.finish();
}

TEST_F(SafetensorsWriterTest, RangesOutsideATensorAreRefused) {
  SafetensorsWriter writer(run, specs, INT64_MAX);
  EXPECT_THAT(error_of([&] { writer.write("h.0", 1, first(5)); }),
              HasSubstr("h.0: has 5 elements, 5 were given from 1"));
  EXPECT_THAT(error_of([&] { writer.write("h.0", -1, first(1)); }), HasSubstr("h.0"));
  EXPECT_THAT(error_of([&] { writer.write("h.2", 0, first(1)); }),
              HasSubstr("h.2: is not among the tensors to write"));
}

TEST_F(SafetensorsWriterTest, TensorsThatCannotBeWrittenAreNamed) {
  const auto refused = [&](const SafeTensorSpec& spec) {
    return error_of([&] { SafetensorsWriter writer(run, {specs[0], spec}, INT64_MAX); });
  };
  EXPECT_THAT(refused(specs[0]), HasSubstr("wte: is given twice"));
  EXPECT_THAT(refused({"n", DType::kFp32, {-1}}), HasSubstr("n: the shape (-1)"));
  EXPECT_THAT(refused({"__metadata__", DType::kFp32, {1}}), HasSubstr("the format uses"));
  EXPECT_THAT(refused({"a\nb", DType::kFp32, {1}}), HasSubstr("a\\x0ab: "));
  EXPECT_TRUE(files_of(run).empty());
}

TEST_F(SafetensorsWriterTest, WholeNumbersAreWrittenAsTheyAreStored) {
  const std::vector<int64_t> numbers = {-1, int64_t{1} << 53, 7};
  SafetensorsWriter writer(run, {specs[0], {"i", DType::kInt64, {3}}}, INT64_MAX);
  writer.write("wte", 0, values);
  EXPECT_THAT(error_of([&] { writer.write("wte", 0, values); }),
              HasSubstr("given twice"));
  writer.write_stored("i", numbers.data());
  EXPECT_THAT(error_of([&] { writer.write_stored("i", numbers.data()); }),
              HasSubstr("given twice"));
  EXPECT_THAT(error_of([&] { writer.write_stored("j", numbers.data()); }),
              HasSubstr("j: is not among"));
  writer.finish();
  std::vector<int64_t> read(3);
  SafetensorsFolder(run).read_stored("i", 0, 3, read.data());
  EXPECT_EQ(read, numbers);
}

TEST_F(SafetensorsWriterTest, FloatsAreNotWrittenAsWholeNumbers) {
  SafetensorsWriter writer(run, {{"i", DType::kInt64, {3}}}, INT64_MAX);
  EXPECT_THAT(error_of([&] { writer.write("i", 0, first(3)); }),
              HasSubstr("i: is of type int64"));
}

TEST_F(SafetensorsWriterTest, AnotherModelInTheFolderIsLeftAlone) {
  for (const char* name : {"model.safetensors", "model-00001-of-00002.safetensors",
                           "model.safetensors.index.json"}) {
    write_file(run + "/" + name, "mine");
    EXPECT_THAT(error_of([&] { write(INT64_MAX); }), HasSubstr("is there already"));
    EXPECT_EQ(read_file(run + "/" + name), "mine");
    clear();
  }
}

TEST_F(SafetensorsWriterTest, ShortAndInterruptedWritesAreContinued) {
  FaultyIo io;
  io.short_writes = 5;
  io.interrupt_every = 2;
  write(INT64_MAX, io);
  std::vector<float> read(12);
  SafetensorsFolder(run).read("wte", 0, read);
  EXPECT_EQ(read, values);
}

TEST_F(SafetensorsWriterTest, AFullDiskSaysWhatIsNeeded) {
  FaultyIo io;
  io.fail_at = 2;  // after the file and its header
  io.error = ENOSPC;
  const std::string error = error_of([&] { write(INT64_MAX, io); });
  EXPECT_THAT(error, HasSubstr("the file needs 286 bytes"));
  EXPECT_THAT(error, HasSubstr("No space left"));
}

// Whichever call is the last: an error, and no model that could be taken for whole.
TEST_F(SafetensorsWriterTest, WhatWasNotFinishedIsNotRead) {
  for (const int64_t max_file_bytes : {INT64_MAX, int64_t{1}}) {
    FaultyIo sound;
    write(max_file_bytes, sound);
    EXPECT_NO_THROW(SafetensorsFolder folder(run));
    for (int call = 0; call < sound.num_calls; ++call) {
      clear();
      FaultyIo io;
      io.fail_at = call;
      io.error = EIO;
      EXPECT_THROW(write(max_file_bytes, io), CheckpointError) << call;
      // The last two make durable what is written.
      if (call < sound.num_calls - 2) {
        EXPECT_THROW(SafetensorsFolder folder(run), CheckpointError) << call;
      }
    }
    clear();
  }
}

// Knows whether there is something that a power cut could take.
class WatchfulIo : public Io {
 public:
  std::set<int> at_risk;
  int num_lengths = 0;

  ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) override {
    if (offset == 0 && bytes == kPrefixBytes) {
      ++num_lengths;
      EXPECT_FALSE(at_risk.contains(file)) << "the length is there before the values";
    }
    at_risk.insert(file);
    return Io::pwrite(file, data, bytes, offset);
  }
  int create(int folder, const char* name) override {
    at_risk.insert(folder);
    return Io::create(folder, name);
  }
  int fsync(int file_or_folder) override {
    at_risk.erase(file_or_folder);
    return Io::fsync(file_or_folder);
  }
};

TEST_F(SafetensorsWriterTest, TheLengthOfTheHeaderIsWrittenLast) {
  WatchfulIo io;
  SafetensorsWriter writer(run, specs, 50, io);
  fill(writer);
  EXPECT_EQ(io.num_lengths, 2);
  EXPECT_TRUE(io.at_risk.empty());
}

}  // namespace
}  // namespace zero::checkpoint::testing::safetensors_writer_test
