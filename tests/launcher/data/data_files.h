#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "launcher/data/mapped_file.h"
#include "launcher/data/token_source.h"

namespace zero::data {

// A folder of its own for each test, and words to fill it with token files.
class DataFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "zero_data_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  template <typename T>
  static std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }

  static std::string llmc_header(int32_t magic, int32_t version, int64_t num_tokens) {
    std::vector<int32_t> words(256);
    words[0] = magic;
    words[1] = version;
    words[2] = static_cast<int32_t>(num_tokens);
    return bytes_of(words);
  }

  static std::string gpt2(const std::vector<uint16_t>& ids) {
    return llmc_header(20240520, 1, std::ssize(ids)) + bytes_of(ids);
  }

  static std::string llama3(const std::vector<uint32_t>& ids) {
    return llmc_header(20240801, 7, std::ssize(ids)) + bytes_of(ids);
  }

  static std::string llmq(const std::vector<uint32_t>& ids, int32_t vocab_size,
                          int32_t version = 2, int32_t bytes_per_token = 4,
                          int32_t has_masks = 0) {
    std::vector<int32_t> words(256);
    std::memcpy(words.data(), "BIN.TOK\n", 8);
    words[2] = version;
    words[3] = bytes_per_token;
    words[4] = static_cast<int32_t>(ids.size());
    words[5] = vocab_size;
    words[6] = has_masks;
    return bytes_of(words) + bytes_of(ids);
  }

  static std::vector<int64_t> read_all(const TokenSource& source) {
    std::vector<int64_t> tokens(static_cast<size_t>(source.num_tokens()));
    source.read(0, source.num_tokens(), tokens.data());
    return tokens;
  }

  // Expects a DataError whose whole text contains all of `parts`.
  template <typename Action>
  static void expect_error(Action action, const std::vector<std::string>& parts) {
    try {
      action();
    } catch (const DataError& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_FALSE(error.where().empty());
      EXPECT_FALSE(error.cure().empty());
      for (const auto& part : parts)
        EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
      return;
    }
    ADD_FAILURE() << "no DataError";
  }

  static void expect_refused(const std::string& path,
                             const std::vector<std::string>& parts) {
    expect_error([&] { TokenSource({path}); }, parts);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace zero::data
