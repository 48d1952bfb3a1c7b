#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "launcher/run/log_files.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::tensorboard_test {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(Crc32c, IsThatOfCastagnoli) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T number;
  std::memcpy(&number, &bytes.at(at + sizeof number - 1) - sizeof number + 1,
              sizeof number);
  return number;
}

uint32_t masked(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// What its records hold, after their time.
std::vector<std::string> events_in(const std::string& bytes) {
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 8), masked(bytes.substr(at, 8)));
    const std::string data = bytes.substr(at + 12, length);
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 12 + length), masked(data));
    EXPECT_EQ(data.at(0), '\x09');  // wall_time, a double
    EXPECT_GT(number_at<double>(data, 1), 1.7e9);
    events.push_back(data.substr(9));
    at += length + 16;
  }
  return events;
}

class TensorboardTest : public ::testing::Test {
 protected:
  std::set<std::string> files() const {  // in the order of their names
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path("events")))
      names.insert("events/" + entry.path().filename().string());
    return names;
  }

  TempFolder folder;
};

TEST_F(TensorboardTest, HoldsAVersionAStartAndScalars) {
  TensorboardFile(folder.path("events"), 300).write(301, {{"a", 1}, {"b", -2}});
  ASSERT_EQ(files().size(), 1u);
  EXPECT_THAT(*files().begin(), StartsWith("events/events.out.tfevents.1"));
  const auto events = events_in(folder.read(*files().begin()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], std::string("\x10\x00\x1a\x0d"
                                   "brain.Event:2",
                                   17));
  EXPECT_EQ(events[1], "\x10\xac\x02\x3a\x02\x08\x01");  // 300 = 0x2c + 2 * 128
  EXPECT_EQ(events[2], std::string("\x10\xad\x02\x2a\x14"
                                   "\x0a\x08\x0a\x01"
                                   "a\x15\x00\x00\x80\x3f"
                                   "\x0a\x08\x0a\x01"
                                   "b\x15\x00\x00\x00\xc0",
                                   25));
}

TEST_F(TensorboardTest, NumbersOfSevenBitsAreOneByte) {
  TensorboardFile(folder.path("events"), 127).write(128, {});
  const auto events = events_in(folder.read(*files().begin()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1], "\x10\x7f\x3a\x02\x08\x01");
  EXPECT_EQ(events[2], std::string("\x10\x80\x01\x2a\x00", 5));
}

TEST_F(TensorboardTest, EachStartHasAFileBehindTheOthers) {
  for (int start = 0; start < 5; ++start)
    TensorboardFile(folder.path("events"), start).write(10, {{"start", start}});
  const auto names = files();
  ASSERT_EQ(names.size(), 5u);
  float start = 0;
  for (const std::string& name : names) {
    const std::string bytes = folder.read(name);
    EXPECT_EQ(number_at<float>(bytes, bytes.size() - 8), start++) << name;
  }
}

TEST_F(TensorboardTest, AFileThatIsMadeLaterBeginsAsAnyOther) {
  folder.write("events", "");  // where the folder should be
  ::testing::internal::CaptureStderr();
  TensorboardFile file(folder.path("events"), 300);
  ::testing::internal::GetCapturedStderr();
  std::filesystem::remove(folder.path("events"));
  std::filesystem::create_directory(folder.path("events"));
  file.write(301, {});
  file.write(302, {});
  const auto events = events_in(folder.read(*files().begin()));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0], EndsWith("brain.Event:2"));
  EXPECT_EQ(events[1], "\x10\xac\x02\x3a\x02\x08\x01");
}

TEST_F(TensorboardTest, WhatCannotBeWrittenIsToldOnce) {
  ::testing::internal::CaptureStderr();
  TensorboardFile file("/proc/nowhere", 1);
  file.write(1, {{"a", 1}});
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warnings, ::testing::HasSubstr("cannot write /proc/nowhere/events"));
  EXPECT_EQ(std::ranges::count(warnings, '\n'), 1);
}

}  // namespace
}  // namespace zero::launcher::tensorboard_test
