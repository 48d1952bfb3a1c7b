#include "checkpoint/manifest.h"

#include "base/hash.h"
#include "base/text.h"
#include "support.h"

namespace zero::checkpoint::testing::manifest_test {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 7;
  manifest.world_size = 2;
  manifest.files = {
      {kVirtualFile, 900, 1}, {shard_file(0, 2), 8192, 2}, {shard_file(1, 2), 8192, 3}};
  manifest.tensors = {
      {Kind::kParam,
       "w",
       DType::kFp32,
       {2, 5},
       {{shard_file(0, 2), 0, 4096, 24, {11}}, {shard_file(1, 2), 6, 4096, 16, {12}}}},
      {Kind::kExpAvg, "e", DType::kFp32, {0}, {}}};
  manifest.aliases = {{"head", "w"}};
  manifest.config = R"({"dim":64})";
  manifest.engine = {{"loss_scale", 65536}, {"tenth", 0.1}};
  return manifest;
}

// Put the right hash at the end again after an edit.
std::string rehashed(std::string text) {
  text.resize(text.rfind(",\"xxh3\":\""));
  return text + ",\"xxh3\":\"" + hex_hash(text) + "\"}\n";
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = to_text(example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return rehashed(text.replace(at, from.size(), to));
}

// What is wrong with the example after a change to it.
std::string flaw_after(const std::function<void(Manifest&)>& change) {
  Manifest manifest = example();
  change(manifest);
  return error_of([&] { parse_manifest(to_text(manifest), "m"); });
}

TEST(ManifestTest, ComesBackAsItWas) {
  const Manifest manifest = parse_manifest(to_text(example()), "m");
  EXPECT_EQ(to_text(manifest), to_text(example()));
  EXPECT_EQ(manifest.config, R"({"dim":64})");
  EXPECT_EQ(manifest.engine, example().engine);
  EXPECT_EQ(manifest.find(Kind::kParam, "head"), manifest.find(Kind::kParam, "w"));
  EXPECT_EQ(manifest.find(Kind::kBuffer, "w"), nullptr);
  EXPECT_EQ(manifest.find(Kind::kParam, "nobody"), nullptr);
}

TEST(ManifestTest, AnAliasStandsForNoBuffer) {
  Manifest manifest = example();
  manifest.tensors.push_back({Kind::kBuffer, "w", DType::kFp32, {0}});
  EXPECT_EQ(manifest.find(Kind::kBuffer, "head"), nullptr);
}

TEST(ManifestTest, AFileHasOneHash) {
  const std::string text = edited("\"xxh3\":\"0000000000000002\"",
                                  "\"xxh3\":\"00000000000000020000000000000003\"");
  EXPECT_EQ(error_of([&] { parse_manifest(text, "m"); }), "m: files[1] has not one hash");
}

TEST(ManifestTest, ItsHashGuardsEveryByte) {
  const std::string text = to_text(example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(flipped, "m"), CheckpointError) << i;
    }
    EXPECT_THROW(parse_manifest(text.substr(0, i), "m"), CheckpointError) << i;
  }
  EXPECT_THROW(parse_manifest(text + "\n", "m"), CheckpointError);
}

TEST(ManifestTest, OtherVersionsAreNamed) {
  for (const char* version : {"0", "3"}) {
    const std::string text =
        edited("\"version\":2", std::string("\"version\":") + version);
    EXPECT_EQ(error_of([&] { parse_manifest(text, "m"); }),
              std::string("m: it has format version ") + version +
                  ", this program reads versions 1 to 2");
  }
}

TEST(ManifestTest, Version1HasNoNumbersOfTheEngine) {
  const std::string numbers = R"(,"engine":{"loss_scale":65536.0,"tenth":0.1})";
  std::string text = edited(numbers, "");
  EXPECT_THROW(parse_manifest(text, "m"), CheckpointError);  // version 2 has them
  text.replace(text.find("\"version\":2"), 11, "\"version\":1");
  EXPECT_TRUE(parse_manifest(rehashed(text), "m").engine.empty());
  text = edited("\"version\":2", "\"version\":1");
  EXPECT_THROW(parse_manifest(text, "m"), CheckpointError);
}

TEST(ManifestTest, FieldsAreStrict) {
  const std::pair<const char*, const char*> edits[] = {
      {"\"step\":7", "\"step\":-7"},
      {"\"step\":7", "\"step\":7.5"},
      {"\"step\":7", "\"step\":\"7\""},
      {"\"step\":7", "\"step\":7,\"step\":8"},
      {"\"step\":7", "\"step\":7,\"more\":8"},
      {"\"step\":7,", ""},
      {"\"shape\":[2,5]", "\"shape\":[4294967296,4294967296]"},
      {"\"shape\":[2,5]", "\"shape\":[-2,-5]"},
      {"\"shape\":[2,5]", "\"shape\":[2,[5]]"},
      {"\"dtype\":\"fp32\"", "\"dtype\":\"fp33\""},
      {"\"kind\":\"params\"", "\"kind\":\"prams\""},
      {"\"bytes\":24", "\"bytes\":9223372036854775808"},
      {"\"xxh3\":\"000000000000000b\"", "\"xxh3\":\"000000000000000B\""},
      {"\"head\":\"w\"", "\"head\":1"},
      {"65536.0", "\"65536.0\""},
      {"65536.0", "null"},
      {"65536.0", "1e999"},
      {"\"tenth\"", "\"loss_scale\""},
  };
  for (const auto& [from, to] : edits) {
    EXPECT_THROW(parse_manifest(edited(from, to), "m"), CheckpointError) << to;
  }
}

TEST(ManifestTest, DeepJsonIsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THROW(parse_manifest(edited("{\"dim\":64}", deep), "m"), CheckpointError);
}

TEST(ManifestTest, FileNamesCannotLeaveTheFolder) {
  for (const char* name : {"../x", "/etc/passwd", "shard_00000_of_00003.h5", ""}) {
    const auto in_table = flaw_after([&](Manifest& m) { m.files[1].name = name; });
    EXPECT_NE(in_table.find("where shard_00000_of_00002.h5 is expected"),
              std::string::npos);
    const auto in_piece =
        flaw_after([&](Manifest& m) { m.tensors[0].pieces[0].file = name; });
    EXPECT_NE(in_piece.find("w: has a piece in"), std::string::npos) << in_piece;
  }
}

TEST(ManifestTest, TensorNamesAreChecked) {
  for (const char* name : {"../x", "/abs", "..", "", "a\x1b"}) {
    EXPECT_THROW(parse_manifest(to_text([&] {
                                  Manifest manifest = example();
                                  manifest.tensors[0].fqn = name;
                                  return manifest;
                                }()),
                                "m"),
                 CheckpointError);
  }
  EXPECT_EQ(flaw_after([](Manifest& m) { m.tensors[1] = m.tensors[0]; }),
            "m: w: is listed twice or out of order");
}

TEST(ManifestTest, TheNumberOfFilesIsTheWorldSize) {
  EXPECT_NE(
      flaw_after([](Manifest& m) { m.files.pop_back(); }).find("lists 1 shard files"),
      std::string::npos);
  EXPECT_NE(flaw_after([](Manifest& m) {
              m.files.push_back({shard_file(2, 2), 1, 1});
            }).find("lists 3 shard files"),
            std::string::npos);
}

TEST(ManifestTest, PiecesMustTileTheTensorInsideTheirFile) {
  const std::string second = shard_file(1, 2);
  const auto flaw = [](const std::function<void(std::vector<Piece>&)>& change) {
    return flaw_after([&](Manifest& m) { change(m.tensors[0].pieces); });
  };
  using Pieces = std::vector<Piece>;
  EXPECT_EQ(flaw([](Pieces& p) { p.pop_back(); }),
            "m: w: has pieces for 6 of its 10 elements");
  EXPECT_EQ(flaw([](Pieces& p) { p[1].begin = 5; }),
            "m: w: has a piece at element 5 where 6 comes next");
  EXPECT_EQ(flaw([](Pieces& p) { p[1].begin = 7; }),
            "m: w: has a piece at element 7 where 6 comes next");
  EXPECT_EQ(flaw([](Pieces& p) { std::swap(p[0], p[1]); }),
            "m: w: has a piece at element 6 where 0 comes next");
  for (const int64_t bytes : {20, 15}) {
    EXPECT_EQ(flaw([&](Pieces& p) { p[1].bytes = bytes; }),
              text_of("m: w: has a piece of ", bytes, " bytes, 4 elements are left"));
  }
  for (const int64_t offset : {int64_t{8192 - 15}, INT64_MAX}) {
    EXPECT_EQ(flaw([&](Pieces& p) { p[1].offset = offset; }),
              "m: w: has a piece outside of " + second);
  }
  Manifest before_file = example();  // as a writer might make it: JSON has none
  before_file.tensors[0].pieces[1].offset = -4;
  EXPECT_EQ(error_of([&] { check_manifest(before_file, "m"); }),
            "m: w: has a piece outside of " + second);
  EXPECT_EQ(flaw([](Pieces& p) { p[1].hashes.push_back(1); }),
            "m: w: has 2 hashes for a piece of 1 chunks");
  EXPECT_EQ(flaw([](Pieces& p) { p[1].hashes.clear(); }),
            "m: w: has 0 hashes for a piece of 1 chunks");
  EXPECT_EQ(
      flaw([](Pieces& p) { p[1].file = kVirtualFile; }),
      "m: w: has a piece in \"checkpoint.h5\", which is no shard of this checkpoint");
}

TEST(ManifestTest, BuffersLieInTheFirstShard) {
  const auto flaw_in = [](int rank) {
    Manifest manifest = example();
    manifest.tensors.push_back({Kind::kBuffer,
                                "mask",
                                DType::kFp32,
                                {2},
                                {{shard_file(rank, 2), 0, 5000, 8, {13}}}});
    return error_of([&] { parse_manifest(to_text(manifest), "m"); });
  };
  EXPECT_EQ(flaw_in(1), "m: mask: is replicated and not in the first shard");
}

TEST(ManifestTest, PiecesMustNotShareBytes) {
  const auto flaw = flaw_after([](Manifest& m) {
    m.tensors[0].pieces[1] = {shard_file(0, 2), 6, 4096 + 23, 16, {12}};
  });
  EXPECT_NE(flaw.find("shares bytes of shard_00000_of_00002.h5"), std::string::npos)
      << flaw;
}

TEST(ManifestTest, AliasesMustMeanAParameter) {
  flaw_after([](Manifest& m) { m.aliases = {{"head", "nobody"}}; });
  flaw_after([](Manifest& m) { m.aliases = {{"head", "head"}}; });
  flaw_after([](Manifest& m) { m.aliases = {{"a", "b"}, {"b", "a"}}; });
  flaw_after([](Manifest& m) { m.aliases = {{"w", "w"}}; });
  flaw_after([](Manifest& m) { m.aliases = {{"e", "w"}}; });  // "e" has a state
  flaw_after([](Manifest& m) { m.aliases = {{"a/b", "w"}}; });
  EXPECT_EQ(flaw_after([](Manifest& m) {
              m.tensors.insert(m.tensors.begin(), {Kind::kParam, "v", DType::kFp32, {0}});
              m.aliases = {{"v", "w"}};
            }),
            "m: v: is an alias and a tensor");
}

TEST(ManifestTest, ReportsComeBackAsTheyWere) {
  const std::string name = shard_file(3, 4);
  const ShardReport report{
      3,
      4,
      {name, 999, 77},
      {{Kind::kExpAvg, "ü", DType::kFp16, {2}, {{name, 0, 8, 4, {5}}}},
       {Kind::kParam, "nothing of it", DType::kFp32, {2}}}};
  EXPECT_EQ(to_text(parse_report(to_text(report))), to_text(report));
  EXPECT_THROW(parse_report("{}"), CheckpointError);
}

// Nobody looks at a report again before its shapes are multiplied.
TEST(ManifestTest, ReportsAreAsStrict) {
  const std::string name = shard_file(0, 1);
  const ShardReport report{
      0,
      1,
      {name, 999, 77},
      {{Kind::kParam, "w", DType::kFp16, {2}, {{name, 0, 8, 4, {5}}}}}};
  const std::string text = to_text(report);
  const std::pair<std::string, std::string> edits[] = {
      {"\"bytes\":4", "\"bytes\":0"},
      {"\"shape\":[2]", "\"shape\":[4294967296,4294967296]"},
      {"\"files\":[{",
       "\"files\":[{\"name\":\"x\",\"bytes\":1,\"xxh3\":\"0000000000000001\"},{"},
      {"\"rank\":0", "\"rank\":-1"}};
  for (const auto& [from, to] : edits) {
    std::string bad = text;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_THROW(parse_report(bad), CheckpointError) << to;
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::manifest_test
