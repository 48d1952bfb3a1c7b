#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "checkpoint/find.h"
#include "checkpoint/ranges.h"
#include "checkpoint/verify.h"
#include "support.h"

// No change of a file goes unnoticed, and the notice names the file and, where values are
// concerned, the tensor.
namespace zero::checkpoint::testing::corruption_test {
namespace {

class CorruptionTest : public CheckpointTest {
 protected:
  void flip(const std::string& file, int64_t at) {
    std::string bytes(1, '\0');
    std::FILE* opened = std::fopen(file.c_str(), "r+b");
    ASSERT_NE(opened, nullptr);
    std::fseek(opened, at, SEEK_SET);
    const int byte = std::fgetc(opened);
    std::fseek(opened, at, SEEK_SET);
    std::fputc(byte ^ (1 << (at % 8)), opened);
    std::fclose(opened);
  }

  // Flip, look, flip back.
  VerifyReport verify_with_flip(const std::string& path, const std::string& file,
                                int64_t at) {
    flip(path + "/" + file, at);
    const auto report = verify(path);
    flip(path + "/" + file, at);
    return report;
  }

  std::vector<Range> pieces_in(const Manifest& manifest, const std::string& file) {
    std::vector<Range> ranges;
    const auto files = pieces_by_file(manifest.tensors);
    const auto found = files.find(file);
    if (found == files.end()) return ranges;
    for (const auto& placed : found->second)
      ranges.push_back({placed.piece->offset, placed.piece->bytes});
    return ranges;
  }
};

TEST_F(CorruptionTest, EveryByteOfTheManifestCounts) {
  const auto path = save(small_model());
  const int64_t bytes = Folder(path).size_of(kManifestFile);
  for (int64_t at = 0; at < bytes; ++at) {
    const auto report = verify_with_flip(path, kManifestFile, at);
    ASSERT_EQ(report.damages.size(), 1u) << at;
    ASSERT_EQ(report.damages[0].file(), path + "/" + kManifestFile);
  }
  EXPECT_TRUE(verify(path).is_sound());
}

TEST_F(CorruptionTest, EveryByteOfHdf5sMetadataCounts) {
  const auto path = save({make_tensor(Kind::kParam, "a.weight", DType::kFp32, {3, 2}),
                          make_tensor(Kind::kExpAvg, "a.weight", DType::kFp32, {3, 2})});
  const Manifest manifest = Reader(path).manifest();
  const int64_t stride = std::getenv("ZERO_TEST_EVERY_BYTE") ? 1 : 8;
  for (const auto& file : manifest.files) {
    for (const auto& gap : gaps_between(pieces_in(manifest, file.name), file.bytes)) {
      for (int64_t at = gap.begin; at < gap.begin + gap.bytes; at += stride) {
        const auto report = verify_with_flip(path, file.name, at);
        ASSERT_EQ(report.damages.size(), 1u) << file.name << " " << at;
        ASSERT_EQ(report.damages[0].file(), path + "/" + file.name);
      }
    }
  }
  EXPECT_TRUE(verify(path).is_sound());
}

TEST_F(CorruptionTest, EveryPageOfValuesCounts) {
  const TestModel model = {
      make_tensor(Kind::kParam, "a", DType::kFp32, {kChunkBytes / 4 + 999}),
      make_tensor(Kind::kExpAvg, "a", DType::kFp32, {kChunkBytes / 4 + 999}),
      make_tensor(Kind::kParam, "tiny", DType::kFp32, {2})};
  const auto path = save(model);
  const Manifest manifest = Reader(path).manifest();
  for (const auto& tensor : manifest.tensors) {
    for (const auto& piece : tensor.pieces) {
      for (int64_t at = 0; at < piece.bytes;
           at += std::min<int64_t>(4096, piece.bytes - at)) {
        const auto report = verify_with_flip(path, piece.file, piece.offset + at);
        ASSERT_EQ(report.damages.size(), 1u);
        ASSERT_EQ(report.damages[0].file(), path + "/" + piece.file);
        ASSERT_EQ(report.damages[0].fqn(), tensor.fqn);
        flip(path + "/" + piece.file, piece.offset + at);
        Reader reader(path);
        const auto error = error_of([&] { reader.read_all(tensor.kind, tensor.fqn); });
        ASSERT_NE(error.find(piece.file + ": " + tensor.fqn), std::string::npos) << error;
        flip(path + "/" + piece.file, piece.offset + at);
      }
    }
  }
  EXPECT_TRUE(holds(path, model));
}

TEST_F(CorruptionTest, DamageElsewhereDoesNotSpoilARead) {
  const auto path = save(small_model());
  const Manifest manifest = Reader(path).manifest();
  const Piece& piece = manifest.find(Kind::kExpAvg, "scale")->pieces.at(0);
  flip(path + "/" + piece.file, piece.offset);
  Reader reader(path);
  EXPECT_NO_THROW(reader.read_all(Kind::kParam, "scale"));
  const std::string what =
      text_of(path, "/", piece.file, ": scale: exp_avg is damaged: bytes ", piece.offset,
              " to ", piece.offset + piece.bytes - 1, " do not have the hash");
  EXPECT_THAT(error_of([&] { reader.read_all(Kind::kExpAvg, "scale"); }),
              ::testing::StartsWith(what));
}

TEST_F(CorruptionTest, DamagedParametersAreValues) {
  const auto path = save(small_model());
  const Manifest manifest = Reader(path).manifest();
  const Piece& piece = manifest.find(Kind::kParam, "scale")->pieces.at(0);
  flip(path + "/" + piece.file, piece.offset);
  EXPECT_THAT(error_of([&] { Reader(path).read_all(Kind::kParam, "scale"); }),
              ::testing::HasSubstr("scale: the values are damaged: bytes "));
}

TEST_F(CorruptionTest, NoFileMayChangeItsSize) {
  const auto path = save(small_model());
  for (const auto& name : files_of(path)) {
    const std::string file = path + "/" + name;
    const std::string whole = read_file(file);
    std::string longer = whole + std::string(4096, '\0');
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, whole.size() / 2,
                               whole.size() - 1, whole.size() + 4096}) {
      write_file(file, longer.substr(0, bytes));
      const std::string error = error_of([&] { Reader reader(path); });
      EXPECT_NE(error.find(name), std::string::npos) << error;
      const auto report = verify(path);
      ASSERT_FALSE(report.is_sound()) << name << " " << bytes;
      EXPECT_EQ(report.damages[0].file(), file);
      EXPECT_FALSE(flaw_of({100, path}).empty());
    }
    write_file(file, whole);
  }
  EXPECT_TRUE(verify(path).is_sound());
}

}  // namespace
}  // namespace zero::checkpoint::testing::corruption_test
