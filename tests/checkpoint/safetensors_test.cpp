#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/text.h"
#include "checkpoint/json.h"
#include "support.h"

namespace zero::checkpoint::testing::safetensors_test {
namespace {

using ::testing::HasSubstr;

// The length of a header, and the header.
std::string with_length(const std::string& header) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header;
}

std::string entry(const std::string& name, const std::string& dtype,
                  const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + offsets + "]}";
}

class SafetensorsTest : public CheckpointTest {
 protected:
  SafeTensors read(const std::string& bytes) {
    write_file(run + "/a", bytes);
    return read_safetensors_header(Folder(run).open("a"));
  }
  SafeTensors read(const std::string& header, int64_t data_bytes) {
    return read(with_length(header) + std::string(static_cast<size_t>(data_bytes), 'x'));
  }
  std::string error(const std::string& header, int64_t data_bytes) {
    return error_of([&] { read(header, data_bytes); });
  }
};

TEST_F(SafetensorsTest, TensorsLieWhereTheHeaderSays) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" +
                             entry("b", "BF16", "2,3", "4,16") + "," +
                             entry("a", "F32", "", "0,4") + "," +
                             entry("none", "I64", "7,0", "16,16") + "}  \n ";
  const auto tensors = read(header, 16);
  const int64_t data = 8 + static_cast<int64_t>(header.size());
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors.at("a").offset, data);
  EXPECT_EQ(tensors.at("a").shape, Shape{});
  EXPECT_EQ(tensors.at("b").offset, data + 4);
  EXPECT_EQ(tensors.at("b").dtype, DType::kBf16);
  EXPECT_EQ(tensors.at("b").shape, (Shape{2, 3}));
  EXPECT_EQ(tensors.at("none").num_bytes(), 0);
}

TEST_F(SafetensorsTest, EveryTypeHasItsName) {
  const std::pair<const char*, DType> types[] = {
      {"F64", DType::kFp64},  {"F32", DType::kFp32},  {"F16", DType::kFp16},
      {"BF16", DType::kBf16}, {"I64", DType::kInt64}, {"I32", DType::kInt32},
      {"U8", DType::kUint8},  {"BOOL", DType::kBool}};
  for (const auto& [name, dtype] : types) {
    const int64_t bytes = size_of(dtype);
    const auto tensors =
        read("{" + entry("w", name, "1", "0," + std::to_string(bytes)) + "}", bytes);
    EXPECT_EQ(tensors.at("w").dtype, dtype) << name;
  }
}

TEST_F(SafetensorsTest, UnknownTypesAreNamed) {
  EXPECT_EQ(error("{" + entry("h.0.w", "F8_E4M3", "4", "0,4") + "}", 4),
            run + "/a: h.0.w: it has the type F8_E4M3, which is not read here");
}

TEST_F(SafetensorsTest, AFileWithoutTensorsIsRead) {
  EXPECT_TRUE(read("{}", 0).empty());
  EXPECT_TRUE(read(R"({"__metadata__":{}})", 0).empty());
}

TEST_F(SafetensorsTest, TheLengthOfTheHeaderIsNotBelieved) {
  EXPECT_THAT(error_of([&] { read("1234567"); }), HasSubstr("has 7 bytes"));
  EXPECT_THAT(error_of([&] { read(std::string(8, '\0')); }), HasSubstr("has no header"));
  EXPECT_THAT(error_of([&] { read(std::string("\0\0\0\0\0\0\0\x80{}", 10)); }),
              HasSubstr("counts 9223372036854775808 bytes of header, the file has 10"));
  EXPECT_THAT(error_of([&] { read(with_length("{}").substr(0, 9)); }),
              HasSubstr("counts 2 bytes of header, the file has 9"));
  EXPECT_THAT(error_of([&] { read("version https://git-lfs.github.com/spec/v1\n"); }),
              HasSubstr("git lfs pull"));
}

TEST_F(SafetensorsTest, OffsetsAreNotBelieved) {
  const auto one = [&](const std::string& shape, const std::string& offsets) {
    return error("{" + entry("w", "F32", shape, offsets) + "}", 8);
  };
  EXPECT_THAT(one("2", "8,0"), HasSubstr("w: it has \"data_offsets\" that are no range"));
  EXPECT_THAT(one("2", "0,8,8"), HasSubstr("no range"));
  EXPECT_THAT(one("2", "8"), HasSubstr("no range"));
  EXPECT_THAT(one("3", "0,12"), HasSubstr("ends at byte 12 of the data, which have 8"));
  EXPECT_THAT(one("2", "9223372036854775799,9223372036854775807"), HasSubstr("ends at"));
  EXPECT_THAT(one("1", "0,8"), HasSubstr("has 8 bytes, the shape (1) of F32 needs 4"));
  EXPECT_THAT(one("2", "0,4"), HasSubstr("has 4 bytes, the shape (2) of F32 needs 8"));
  EXPECT_THAT(one("1", "0,4"), HasSubstr("has 8 bytes of data, its tensors have 4"));
  EXPECT_THAT(one("1", "4,8"), HasSubstr("behind bytes of no tensor: 0 was expected"));
  for (const char* offset :
       {"-1,7", "0,8.0", "0,18446744073709551615", "0,\"8\"", "0,[8]"})
    EXPECT_THAT(one("2", offset), HasSubstr("what is no count")) << offset;
}

TEST_F(SafetensorsTest, ShapesAreNotBelieved) {
  const auto one = [&](const std::string& shape) {
    return error("{" + entry("w", "U8", shape, "0,0") + "}", 0);
  };
  EXPECT_THAT(one("4294967296,4294967296"), HasSubstr("w: it has a shape"));
  EXPECT_THAT(one("9223372036854775807"), HasSubstr("not possible"));
  EXPECT_THAT(one("0,9223372036854775807,3"), HasSubstr("not possible"));
  EXPECT_THAT(one("-1"), HasSubstr("what is no count"));
  EXPECT_THAT(one("[1]"), HasSubstr("what is no count"));
}

TEST_F(SafetensorsTest, TensorsDoNotOverlapAndLeaveNoHoles) {
  const auto two = [&](const std::string& first, const std::string& second) {
    return error(
        "{" + entry("a", "U8", "4", first) + "," + entry("b", "U8", "4", second) + "}",
        8);
  };
  EXPECT_THAT(two("0,4", "0,4"), HasSubstr("inside another tensor: 4 was expected"));
  EXPECT_THAT(two("3,7", "0,4"), HasSubstr("a: begins at byte 3"));
  EXPECT_EQ(
      error("{" + entry("a", "U8", "4", "0,4") + "," + entry("b", "U8", "3", "5,8") + "}",
            8),
      run +
          "/a: b: begins at byte 5 of the data, behind bytes of no tensor: 4 was "
          "expected");
  EXPECT_THAT(error("{" + entry("a", "U8", "4", "0,4") + "," +
                        entry("none", "U8", "0", "2,2") + "}",
                    4),
              HasSubstr("inside another tensor"));
}

TEST_F(SafetensorsTest, TheHeaderIsStrictJson) {
  const std::string good = entry("w", "U8", "1", "0,1");
  const std::string whole = "{" + good + "}";
  EXPECT_NO_THROW(read(whole, 1));
  const std::vector<std::string> bad = {"[]",
                                        "{" + good,
                                        "{" + good + ",}",
                                        "{" + good + "," + good + "}",
                                        whole + "}",
                                        whole + " x",
                                        whole + std::string(7, '\0'),
                                        " " + whole,
                                        "\xEF\xBB\xBF" + whole,
                                        "{" + entry("\xff", "U8", "1", "0,1") + "}"};
  for (const auto& header : bad) EXPECT_THROW(read(header, 1), CheckpointError) << header;
}

TEST_F(SafetensorsTest, AnEntryHasItsThreeFields) {
  for (const char* bad :
       {"1", "[]", "{}", R"({"dtype":"U8","shape":[1]})",
        R"({"dtype":1,"shape":[1],"data_offsets":[0,1]})",
        R"({"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})"})
    EXPECT_THROW(read(text_of("{\"w\":", bad, "}"), 1), CheckpointError) << bad;
}

TEST_F(SafetensorsTest, MetadataAreText) {
  for (const char* bad : {"null", "[]", "\"pt\"", R"({"format":1})", R"({"a":{}})"})
    EXPECT_THAT(error(text_of("{\"__metadata__\":", bad, "}"), 0),
                HasSubstr("__metadata__: is no object whose members are text"));
}

TEST_F(SafetensorsTest, DeepNestingIsOneError) {
  const std::string open(100000, '[');
  EXPECT_THAT(error("{\"w\":" + open, 0), HasSubstr("nested too deeply"));
}

TEST_F(SafetensorsTest, NamesAreSafeToPrint) {
  EXPECT_EQ(error("{" + entry("\\u001b]0;x\\u0007", "I8", "", "0,1") + "}", 1),
            run + "/a: \\x1b]0;x\\x07: it has the type I8, which is not read here");
}

// Every flip of a bit of the header is refused, or leaves tensors that cover the file.
TEST_F(SafetensorsTest, FlippedBitsDoNoHarm) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" +
                             entry("a", "F32", "2,2", "0,16") + "," +
                             entry("b", "BF16", "4", "16,24") + "}";
  const std::string bytes = with_length(header) + std::string(24, 'x');
  int num_refused = 0;
  for (size_t bit = 0; bit < 8 * (8 + header.size()); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      int64_t num_bytes = 0;
      for (const auto& [name, tensor] : read(flipped)) {
        EXPECT_LE(tensor.offset + tensor.num_bytes(), static_cast<int64_t>(bytes.size()));
        num_bytes += tensor.num_bytes();
      }
      EXPECT_EQ(num_bytes, 24) << bit;
    } catch (const CheckpointError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 8 * static_cast<int>(header.size()) / 2);
}

TEST_F(SafetensorsTest, EveryPrefixIsRefused) {
  const std::string bytes =
      with_length("{" + entry("a", "F32", "2,2", "0,16") + "}") + std::string(16, 'x');
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(read(bytes.substr(0, size)), CheckpointError) << size;
  EXPECT_THROW(read(bytes + "x"), CheckpointError);
}

// What the reference writer, version 0.8.0, made of these tensors.
TEST_F(SafetensorsTest, TheLayoutIsThatOfTheReferenceWriter) {
  SafeTensors tensors = {
      {"z", {DType::kFp16, {2}}},           {"a", {DType::kFp32, {2, 2}}},
      {"i", {DType::kInt64, {1}}},          {"d", {DType::kFp64, {}}},
      {"j", {DType::kInt32, {3}}},          {"u", {DType::kUint8, {3}}},
      {"k", {DType::kBool, {1}}},           {"e", {DType::kFp32, {0, 4}}},
      {"größe\"\n/\\", {DType::kFp32, {1}}}};
  const std::string golden =
      R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("d":{"dtype":"F64","shape":[],"data_offsets":[8,16]},)"
      R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},)"
      R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[32,32]},)"
      R"("größe\"\n/\\":{"dtype":"F32","shape":[1],"data_offsets":[32,36]},)"
      R"("j":{"dtype":"I32","shape":[3],"data_offsets":[36,48]},)"
      R"("z":{"dtype":"F16","shape":[2],"data_offsets":[48,52]},)"
      R"("u":{"dtype":"U8","shape":[3],"data_offsets":[52,55]},)"
      R"("k":{"dtype":"BOOL","shape":[1],"data_offsets":[55,56]}}    )";
  const std::string header = lay_out_safetensors(tensors, "a");
  EXPECT_EQ(header, std::string(" \2\0\0\0\0\0\0", 8) + golden);
  const auto read_again = read(header + std::string(56, 'x'));
  ASSERT_EQ(read_again.size(), tensors.size());
  for (const auto& [name, tensor] : tensors)
    EXPECT_EQ(read_again.at(name).offset, tensor.offset) << name;
}

std::string repeated(const std::string& text, size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

// As many as are read, with names that fill the header.
std::string many_tensors(size_t bytes) {
  const size_t num_tensors = kMaxJsonMembers;
  const std::string rest = entry("", "U8", "0", "0,0") + ",";
  std::string header = "{";
  for (size_t i = 0; i < num_tensors; ++i) {
    std::string name = std::to_string(i);
    name.resize((bytes - 2) / num_tensors - rest.size(), 'x');
    header += entry(name, "U8", "0", "0,0") + ",";
  }
  header.back() = '}';
  return header;
}

struct Cost {
  bool is_read = false;
  int64_t peak_mib = 0;
  double seconds = 0;  // of a processor
};

struct Ended {
  int code = -1;
  rusage usage = {};
};

// A process of its own that starts with this one's memory.
Ended run_apart(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  Ended ended;
  EXPECT_EQ(::wait4(child, &status, 0, &ended.usage), child);
  EXPECT_TRUE(WIFEXITED(status));
  ended.code = WEXITSTATUS(status);
  return ended;
}

// What it costs to read the file "a", beside what a process has from its beginning.
Cost cost_of_reading(const std::string& run) {
  const Ended idle = run_apart([] { return 0; });
  const auto [code, usage] = run_apart([&] {
    try {
      read_safetensors_header(Folder(run).open("a"));
    } catch (const CheckpointError&) {
      return 1;
    }
    return 0;
  });
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {code == 0, (usage.ru_maxrss - idle.usage.ru_maxrss) / 1024,
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

// As much as the format allows, and as much as we read.
TEST_F(SafetensorsTest, LargeHeadersTakeNeitherMemoryNorTime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const auto most = static_cast<size_t>(kMaxSafetensorsHeaderBytes) - 100;
  const auto in_w = [](const std::string& text) { return "{\"w\":" + text + "}"; };
  struct Case {
    const char* name;
    bool is_read;
    std::function<std::string()> header;
  };
  const Case cases[] = {
      {"100 MB", false, [] { return "{" + std::string(99999998, ' ') + "}"; }},
      {"space", true, [&] { return "{" + std::string(most, ' ') + "}"; }},
      {"tensors", true, [&] { return many_tensors(most); }},
      {"text", false, [&] { return in_w("\"" + std::string(most, 'x') + "\""); }},
      {"a number", false, [&] { return in_w(std::string(most, '1')); }},
      {"numbers", false, [&] { return in_w("[" + repeated("0,", most) + "0]"); }},
      {"arrays", false, [&] { return in_w("[" + repeated("[],", most) + "[]]"); }},
      {"objects", false, [&] { return in_w("[" + repeated("{},", most) + "{}]"); }}};
  for (const auto& [name, is_read, header] : cases) {
    write_file(run + "/a", with_length(header()));
    const Cost cost = cost_of_reading(run);
    EXPECT_EQ(cost.is_read, is_read) << name;
    EXPECT_LT(cost.peak_mib, 256) << name;
    EXPECT_LT(cost.seconds, 20) << name << ": hours, if it grew with the square";
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::safetensors_test
