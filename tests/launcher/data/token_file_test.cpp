#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <random>

#include "tests/launcher/data/data_files.h"

namespace zero::data::token_file_test {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<int64_t>;

class TokenFileTest : public DataFiles {};

// The formats

TEST_F(TokenFileTest, ReadsTextAsBytesAndEndOfText) {
  const TokenSource source({write("a.txt", "az\xff")});
  EXPECT_EQ(read_all(source), (Tokens{'a', 'z', 255, 256}));
  EXPECT_EQ(source.vocab_size(), 257);
  EXPECT_EQ(source.describe(), "text, 1 file, 4 tokens");
}

TEST_F(TokenFileTest, ReadsTheBytesOfAnyFileIfAsked) {
  const TokenSource source(
      {write("a.bin", "abc"), write("b.idx", gpt2({7})), write("c.gz", "\x1f\x8b")},
      Texts::kAny);
  EXPECT_EQ(source.vocab_size(), 257);
  EXPECT_EQ(source.num_tokens(), 3 + 1026 + 2 + 3);
}

TEST_F(TokenFileTest, ReadsRawUint16) {
  const TokenSource source(
      {write("train.bin", bytes_of<uint16_t>({1, 2, 50256, 65535}))});
  EXPECT_EQ(read_all(source), (Tokens{1, 2, 50256, 65535}));
  EXPECT_EQ(source.vocab_size(), 0);
  EXPECT_EQ(source.describe(), "nanoGPT uint16, 1 file, 4 tokens");
}

TEST_F(TokenFileTest, ReadsLlmcGpt2UnderAnyName) {
  const TokenSource source(
      {write("shard.bin", gpt2({7, 50256})), write("tokens", gpt2({8}))});
  EXPECT_EQ(read_all(source), (Tokens{7, 50256, 8}));
  EXPECT_EQ(source.describe(), "llm.c gpt2, 2 files, 3 tokens");
}

TEST_F(TokenFileTest, ReadsLlmcLlama3) {
  const TokenSource source({write("shard.bin", llama3({128255, 4294967295}))});
  EXPECT_EQ(read_all(source), (Tokens{128255, 4294967295}));
  EXPECT_EQ(source.describe(), "llm.c llama3, 1 file, 2 tokens");
}

TEST_F(TokenFileTest, ReadsBothVersionsOfLlmq) {
  const TokenSource source(
      {write("v2.bin", llmq({3, 1 << 20}, 151936)), write("v1.bin", llmq({4}, 0, 1))});
  EXPECT_EQ(read_all(source), (Tokens{3, 1 << 20, 4}));
  EXPECT_EQ(source.vocab_size(), 151936);
  EXPECT_EQ(source.describe(), "LLMQ, 2 files, 3 tokens");
}

TEST_F(TokenFileTest, DescribesLargeNumbersReadably) {
  const TokenSource source({write("a.txt", std::string(1234566, 'x'))});
  EXPECT_EQ(source.describe(), "text, 1 file, 1,234,567 tokens");
}

TEST_F(TokenFileTest, ATextMayBeginAsATableDoes) {
  const TokenSource source({write("a.txt", "PAR1 begins and ends a parquet table")});
  EXPECT_EQ(source.describe(), "text, 1 file, 37 tokens");
}

TEST_F(TokenFileTest, ReadsAnyRangeAcrossFiles) {
  write("c/1", "abc");
  write("c/2", "d");
  write("c/3", "efgh");
  const TokenSource source({path("c")});
  const auto all = read_all(source);
  for (int64_t begin = 0; begin <= source.num_tokens(); ++begin) {
    for (int64_t end = begin; end <= source.num_tokens(); ++end) {
      Tokens part(static_cast<size_t>(end - begin));
      source.read(begin, end - begin, part.data());
      ASSERT_EQ(part, Tokens(all.begin() + begin, all.begin() + end))
          << begin << " " << end;
    }
  }
}

// Folders

TEST_F(TokenFileTest, ReadsAFolderAtAnyDepthInBytewiseOrder) {
  write("c/b.txt", "3");
  write("c/a/z", "2");
  write("c/a.txt", "1");  // '.' sorts before '/'
  write("c/B", "0");
  const Tokens expected{'0', 256, '1', 256, '2', 256, '3', 256};
  EXPECT_EQ(read_all(TokenSource({path("c")})), expected);
  EXPECT_EQ(read_all(TokenSource({path("c/")})), expected);
}

TEST_F(TokenFileTest, LeavesOutHiddenLinkedEmptyAndSpecialEntriesOfAFolder) {
  write("outside/secret", "s");
  write("c/kept", "k");
  write("c/.hidden", "h");
  write("c/.git/config", "g");
  write("c/__init__.py", "");
  fs::create_symlink(path("outside/secret"), path("c/link"));
  fs::create_directory_symlink(path("outside"), path("c/folder_link"));
  fs::create_directory_symlink(path("c"), path("c/loop"));
  ::mkfifo(path("c/pipe").c_str(), 0600);
  EXPECT_EQ(read_all(TokenSource({path("c")})), (Tokens{'k', 256}));
}

TEST_F(TokenFileTest, FollowsALinkThatIsNamed) {
  write("a.txt", "x");
  fs::create_symlink(path("a.txt"), path("link"));
  EXPECT_EQ(read_all(TokenSource({path("link")})), (Tokens{'x', 256}));
}

TEST_F(TokenFileTest, JoinsPathsInTheOrderGiven) {
  write("c/1", "1");
  const auto a = write("a", "a"), z = write("z", "z");
  EXPECT_EQ(read_all(TokenSource({z, path("c"), a})),
            (Tokens{'z', 256, '1', 256, 'a', 256}));
}

TEST_F(TokenFileTest, ReadsFoldersOfMoreFilesThanItKeepsMapped) {
  Tokens expected;
  for (int i = 0; i < 1500; ++i) {
    write("c/" + std::to_string(10000 + i),
          std::string(1, static_cast<char>('a' + i % 26)));
    expected.insert(expected.end(), {'a' + i % 26, 256});
  }
  const TokenSource source({path("c")});
  EXPECT_EQ(read_all(source), expected);
  EXPECT_EQ(source.describe(), "text, 1,500 files, 3,000 tokens");
}

// What cannot be used

TEST_F(TokenFileTest, RefusesPathsThatCannotBeOpened) {
  write("file", "x");
  fs::create_symlink(path("loop"), path("loop"));
  expect_refused(path("absent"), {"does not exist", path("absent"), "check this path"});
  expect_refused(path("file/below"),
                 {"cannot be read", path("file/below"), "check this path"});
  expect_refused(path("loop"), {"cannot be read", path("loop")});
  expect_refused("/dev/zero",
                 {"neither a file nor a folder", "/dev/zero", "write the tokens"});
  expect_error([] { TokenSource({"https://a.b/c.txt"}); },
               {"does not exist", "download it first, and name the file"});
  expect_error([] { TokenSource({"a,b"}); }, {"blanks between them: a b"});
  expect_error([] { TokenSource(std::vector<std::string>{}); },
               {"no data", "--data PATH"});
}

TEST_F(TokenFileTest, RefusesUnreadableFilesAndFolders) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const auto file = write("file", "x"), inside = write("c/d/inside", "x");
  fs::permissions(file, fs::perms::none);
  fs::permissions(path("c/d"), fs::perms::none);
  expect_refused(file, {"cannot open", "Permission denied", file, "permissions"});
  expect_refused(path("c"), {"cannot be read", "Permission denied", path("c/d")});
  fs::permissions(path("c/d"), fs::perms::owner_all);
}

TEST_F(TokenFileTest, RefusesEmptyFilesAndFolders) {
  fs::create_directories(path("c/d"));
  expect_refused(write("e.txt", ""),
                 {"empty", path("e.txt") + ", byte 0", "name another"});
  expect_refused(write("e.bin", ""), {"empty", path("e.bin")});
  expect_refused(write("e", gpt2({})), {"empty", path("e")});
  expect_refused(path("c"), {"holds no files", path("c"), "hidden names"});
  write("c/blank", "");
  expect_refused(path("c"), {"empty", path("c")});
  write("c/blank.bin", "");
  expect_refused(path("c"), {"empty", path("c/blank.bin")});
}

TEST_F(TokenFileTest, RefusesForeignMagicAndVersions) {
  expect_refused(write("a.bin", llmc_header(20240520, 2, 0)),
                 {"version 2", "expected 1", "a.bin, byte 4", "tokenise"});
  expect_refused(write("b.bin", llmc_header(20240801, 1, 0)),
                 {"version 1", "expected 7", "b.bin, byte 4"});
  expect_refused(write("c.bin", llmq({1}, 9, 3)),
                 {"version 3", "expected 1 or 2", "c.bin, byte 8"});
  expect_refused(write("d.bin", llmq({1}, 9, 2, 8)),
                 {"bytes per token 8", "expected 2 or 4", "d.bin, byte 12"});
  expect_refused(write("e.bin", llmq({1}, -5)), {"vocabulary -5", "e.bin, byte 20"});
  expect_refused(write("g.bin", llmq({1}, 0)), {"vocabulary 0", "expected at least 1"});
  expect_refused(
      write("f.bin", llmc_header(20240522, 1, 4)),
      {"wrong magic 20240522", "20240520 or 20240801", "f.bin, byte 0", "evaluation"});
  for (const int32_t day : {20240101, 20241231})
    expect_refused(write("h.bin", llmc_header(day, 1, 4)), {"wrong magic"});
  for (const int32_t no_day : {20240100, 20241232}) {
    const TokenSource source({write("h.bin", bytes_of<int32_t>({no_day}))});
    EXPECT_EQ(source.describe(), "nanoGPT uint16, 1 file, 2 tokens");
  }
}

TEST_F(TokenFileTest, RefusesLossMasks) {
  expect_refused(write("a.bin", llmq({1, 2}, 9, 2, 4, 1) + "\x01"),
                 {"loss masks", "a.bin, byte 24", "without masks"});
}

TEST_F(TokenFileTest, RefusesCountsThatDisagreeWithTheSize) {
  const auto whole = gpt2({1, 2, 3});
  expect_refused(
      write("a.bin", whole.substr(0, whole.size() - 2)),
      {"announces 3 tokens of 2 bytes", "holds 4 bytes", "a.bin, byte 8", "copy"});
  expect_refused(write("b.bin", whole + "\x01"), {"holds 7 bytes", "b.bin, byte 8"});
  expect_refused(write("c.bin", llmc_header(20240801, 7, -1) + "1234"),
                 {"announces -1 tokens", "c.bin, byte 8"});
  expect_refused(write("d.bin", llmq({1, 2}, 9) + "1234"),
                 {"announces 2 tokens of 4 bytes", "holds 12 bytes", "d.bin, byte 16"});
  expect_refused(write("e.bin", whole.substr(0, 1000)),
                 {"header is cut off", "1000 bytes of 1024", "e.bin, byte 1000", "copy"});
  expect_refused(write("f.bin", "BIN.TOK\n"), {"header is cut off", "f.bin, byte 8"});
}

TEST_F(TokenFileTest, RefusesAnOddByte) {
  expect_refused(write("a.bin", "12345"),
                 {"odd number of bytes", "a.bin, byte 4", "tokenise the text again"});
}

TEST_F(TokenFileTest, SaysThatMegatronPairsAreNotReadYet) {
  const auto index =
      write("m.idx", std::string("MMIDIDX\0\0", 9) + std::string(34, '\0'));
  const auto tokens = write("m.bin", "1234");
  expect_refused(index, {"Megatron", "m.idx, byte 0", "convert"});
  expect_refused(tokens, {"Megatron", "m.bin, byte 0", "convert"});
  expect_refused(write("other.idx", "x"), {"Megatron", "other.idx"});
}

TEST_F(TokenFileTest, RefusesWhatBeginsAsNoTextDoes) {
  const std::pair<std::string, const char*> kinds[] = {
      {"\x7f"
       "ELF",
       "a program"},
      {"PAR1", "a parquet table"},
      {std::string("ARROW1\0\0", 8), "an Arrow table"},
      {std::string("SQLite format 3\0", 16), "an SQLite database"},
      {"\x89HDF", "an HDF5 file"},
      {"\x93NUMPY", "a NumPy array"},
      {"PK\x03\x04", "a zip archive"},
      {"\x1f\x8b", "gzip"},
      {"BZh91AY&SY", "bzip2"},
      {"\xfd"
       "7zXZ",
       "xz"},
      {"\x28\xb5\x2f\xfd", "zstd"},
      {"%PDF-", "a PDF"},
      {"\xff\xfe", "UTF-16"},
      {"\xfe\xff", "UTF-16"}};
  for (const auto& [begin, name] : kinds)
    expect_refused(write("a.txt", begin + " and the rest, PAR1"),
                   {std::string("this is no text but ") + name, "a.txt, byte 0",
                    "or --bytes to learn its bytes"});
}

TEST_F(TokenFileTest, RefusesAMixOfKinds) {
  const auto a = write("c/a.bin", gpt2({1})), b = write("c/readme", "hello");
  expect_refused(path("c"), {"mixes two kinds", a + " is llm.c gpt2", b + " is text",
                             "files of one kind"});
  const auto raw = write("raw.bin", bytes_of<uint16_t>({1}));  // as wide
  expect_error([&] { TokenSource({a, raw}); }, {raw + " is nanoGPT uint16"});
}

// Ids

class TokenIdTest : public DataFiles {
 protected:
  // A bad id at each of several places is named with file, byte and id.
  template <typename T, typename Encode>
  void expect_found(const std::string& name, int64_t data_begin, Encode encode) {
    constexpr int64_t kCount = 30011;
    std::mt19937_64 random(1);
    for (int64_t place :
         {int64_t{0}, kCount - 1, static_cast<int64_t>(random() % kCount)}) {
      std::vector<T> ids(kCount, 99);
      const T bad = sizeof(T) == 1 ? 200 : 50257;
      ids[static_cast<size_t>(place)] = bad;
      const auto file = write(name, encode(ids));
      const TokenSource source({file});
      const auto offset = data_begin + place * int64_t{sizeof(T)};
      expect_error(
          [&] { source.check_ids(bad); },
          {"token id " + std::to_string(bad) + " ",
           "vocabulary of " + std::to_string(bad),
           file + ", byte " + std::to_string(offset) + "\n",
           "--vocab to at least " + std::to_string(sizeof(T) == 1 ? 257 : bad + 1)});
      EXPECT_NO_THROW(source.check_ids(sizeof(T) == 1 ? 257 : bad + 1));
    }
  }
};

TEST_F(TokenIdTest, FindsABadIdInEveryFormat) {
  expect_found<uint8_t>("text", 0, bytes_of<uint8_t>);
  expect_found<uint16_t>("raw.bin", 0, bytes_of<uint16_t>);
  expect_found<uint16_t>("gpt2.bin", 1024, gpt2);
  expect_found<uint32_t>("llama3.bin", 1024, llama3);
  expect_found<uint32_t>("llmq.bin", 1024,
                         [](const auto& ids) { return llmq(ids, 60000); });
}

TEST_F(TokenIdTest, FindsABadIdBehindTheFirstChunk) {
  std::vector<uint16_t> ids(9 << 20, 1);  // 18 MiB
  ids.back() = 7;
  const auto file = write("big.bin", bytes_of(ids));
  expect_error([&] { TokenSource({file}).check_ids(7); },
               {"token id 7 ", file + ", byte " + std::to_string((18 << 20) - 2) + "\n"});
}

TEST_F(TokenIdTest, AnIdOf256EndsATextWhereOneEndsAlone) {
  const auto file = write("a.bin", bytes_of<uint16_t>({1, 256}));
  expect_error([&] { TokenSource({file}).check_ids(256); },
               {"token id 256 does not fit", file + ", byte 2"});
}

TEST_F(TokenIdTest, FindsABadIdInALaterFile) {
  write("c/1.bin", gpt2({1, 2}));
  const auto second = write("c/2.bin", gpt2({3, 900, 4}));
  expect_error([&] { TokenSource({path("c")}).check_ids(900); },
               {"token id 900 ", second + ", byte 1026"});
}

TEST_F(TokenIdTest, TextNeedsRoomForEndOfText) {
  const auto file = write("a.txt", "abc");
  const TokenSource source({file});
  EXPECT_NO_THROW(source.check_ids(257));
  expect_error(
      [&] { source.check_ids(256); },
      {"token id 256 (end of text", file + ", byte 3", "--vocab to at least 257"});
}

TEST_F(TokenIdTest, LargestIdsOfAFormatAreCompared) {
  const TokenSource narrow({write("a.bin", bytes_of<uint16_t>({65535}))});
  EXPECT_NO_THROW(narrow.check_ids(65536));
  expect_error([&] { narrow.check_ids(65535); }, {"token id 65535 "});
  const TokenSource wide({write("b.bin", llama3({4294967295}))});
  EXPECT_NO_THROW(wide.check_ids(int64_t{1} << 32));
  expect_error([&] { wide.check_ids(4294967295); }, {"token id 4294967295 "});
}

// Large files

TEST_F(TokenFileTest, ReadsBeyondFourGigabytesOfASparseFile) {
  constexpr int64_t kNumTokens = (int64_t{5} << 30) / 2;
  const auto file = write("sparse.bin", "");
  fs::resize_file(file, kNumTokens * 2);
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp((kNumTokens - 3) * 2) << bytes_of<uint16_t>({11, 12, 13});
  stream.close();
  const TokenSource source({file});
  EXPECT_EQ(source.num_tokens(), kNumTokens);
  Tokens tail(5);
  source.read(kNumTokens - 5, 5, tail.data());
  EXPECT_EQ(tail, (Tokens{0, 0, 11, 12, 13}));
}

TEST_F(TokenFileTest, CountsLlama3TokensBeyondFourGigabytes) {
  constexpr int64_t kNumTokens = 2147483647;
  const auto file = write("sparse.bin", llmc_header(20240801, 7, kNumTokens));
  fs::resize_file(file, 1024 + kNumTokens * 4);
  const TokenSource source({file, write("next.bin", llama3({5}))});
  EXPECT_EQ(source.num_tokens(), kNumTokens + 1);
  Tokens tail(2);
  source.read(kNumTokens - 1, 2, tail.data());
  EXPECT_EQ(tail, (Tokens{0, 5}));
}

// Files that change during a run

class ChangedFileTest : public DataFiles {
 protected:
  void SetUp() override {
    DataFiles::SetUp();
    write("c/1.bin", gpt2({1, 2, 3}));
    file_ = write("c/2.bin", gpt2(std::vector<uint16_t>(100000, 4)));
  }

  void expect_noticed(const TokenSource& source, const std::string& how) {
    Tokens tokens(10);
    EXPECT_NO_THROW(source.read(0, 3, tokens.data())) << "the first file is as it was";
    expect_error([&] { source.read(90000, 10, tokens.data()); },
                 {how, file_, "start the run again"});
    expect_error([&] { source.check_ids(100); }, {how, file_});
    expect_error([&] { (void)source.content_hash(); }, {how, file_});
  }

  std::string file_;
};

TEST_F(ChangedFileTest, NoticesACutInsteadOfCrashing) {
  const TokenSource source({path("c")});
  fs::resize_file(file_, 2000);
  expect_noticed(source, "201024 bytes then, 2000 now");
}

TEST_F(ChangedFileTest, NoticesGrowth) {
  const TokenSource source({path("c")});
  std::ofstream(file_, std::ios::binary | std::ios::app) << "x";
  expect_noticed(source, "201024 bytes then, 201025 now");
}

TEST_F(ChangedFileTest, NoticesAWriteOfTheSameSize) {
  const TokenSource source({path("c")});
  fs::last_write_time(file_, fs::last_write_time(file_) + std::chrono::milliseconds(5));
  expect_noticed(source, "written to since this run opened it");
}

TEST_F(ChangedFileTest, NoticesRemoval) {
  const TokenSource source({path("c")});
  fs::remove(file_);
  expect_error([&] { source.check_ids(100); }, {"No such file", file_});
}

// Identity

class ContentHashTest : public DataFiles {
 protected:
  uint64_t hash(const std::string& name) const {
    return TokenSource({path(name)}).content_hash();
  }
};

TEST_F(ContentHashTest, IsTheSameWhereverTheFolderLies) {
  for (const char* folder : {"here", "there/below"}) {
    write(folder + std::string("/a"), "one");
    write(folder + std::string("/b/c"), "two");
  }
  EXPECT_EQ(hash("here"), hash("there/below"));
  EXPECT_EQ(hash("here/a"), hash("there/below/a"));
}

TEST_F(ContentHashTest, SeesContentsNamesAndBorders) {
  std::vector<uint64_t> hashes;
  const auto note = [&](const std::string& name, const std::string& a,
                        const std::string& b) {
    write("c/" + name, a);
    write("c/z", b);
    hashes.push_back(hash("c"));
    fs::remove_all(path("c"));
  };
  note("a", "one", "two");
  note("a", "one", "twO");
  note("a", "onet", "wo");
  note("b", "one", "two");
  note("a", "two", "one");
  note("ab", "c", "two");
  note("a", "bc", "two");
  for (size_t i = 0; i < hashes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(hashes[i], hashes[j]) << i << " " << j;
  }
}

TEST_F(ContentHashTest, SeesTheOrderOfThePaths) {
  const auto a = write("a", "1"), b = write("b", "2");
  EXPECT_NE(TokenSource({a, b}).content_hash(), TokenSource({b, a}).content_hash());
}

TEST_F(ContentHashTest, SeesTheLastByteOfALargeFile) {
  write("a.bin", std::string(20 << 20, 'x'));
  const auto before = hash("a.bin");
  write("a.bin", std::string((20 << 20) - 1, 'x') + "y");
  EXPECT_NE(hash("a.bin"), before);
}

}  // namespace
}  // namespace zero::data::token_file_test
