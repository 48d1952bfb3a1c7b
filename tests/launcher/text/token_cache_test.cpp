#include "launcher/text/token_cache.h"

#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "launcher/data/token_source.h"
#include "tests/launcher/data/data_files.h"
#include "zero/errors.h"

namespace zero::launcher::token_cache_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A shell as the tokenizer's process, which notes what it was asked: its tokens are the
// same for all texts.
std::vector<std::string> shell(const std::string& log) {
  std::string script = R"sh(
while read -r question; do
  case "$question" in
    *'"tokenize"'*)
      echo made >> LOG
      out=$(printf '%s' "$question" | sed 's/.*"out":"\([^"]*\)".*/\1/')
      printf ab > "$out"
      echo '{"read": 3, "written": 2}'
      echo '{"tokens": 2, "documents": 1, "files": ["tokens.tok"]}' ;;
    *'"look"'*)
      echo '{"ids": [0], "word": "<e>", "shown": "<e> (0)", "examples": false}' ;;
    *) echo '{"vocab": 9}' ;;
  esac
done)sh";
  script.replace(script.find("LOG"), 3, log);
  return {"sh", "-c", script};
}

class TokenCache : public data::DataFiles {
 protected:
  void SetUp() override {
    DataFiles::SetUp();
    options_.tokenizer = path("m/tokenizer.json");
    options_.cache = path("cache");
    options_.command = shell(path("log"));
    write("m/tokenizer.json", "{}");
    write("a.txt", "abc");
  }

  TokenizedText run() { return tokenize(data::TokenSource({path("a.txt")}), options_); }
  Error error_of_run() {
    try {
      run();
    } catch (const Error& error) {
      return error;
    }
    return {ExitCode::kDone, "no error"};
  }
  std::string seen_file() const {
    for (const auto& entry : fs::directory_iterator(path("cache")))
      if (entry.path().extension() == ".seen") return entry.path();
    return "";
  }
  // How often it was asked for tokens.
  int64_t num_made() const {
    std::ifstream log(path("log"));
    int64_t made = 0;
    for (std::string line; std::getline(log, line);) made += line == "made";
    return made;
  }
  int64_t num_folders() const {
    int64_t found = 0;
    for (const auto& entry : fs::directory_iterator(path("cache")))
      found += entry.is_directory();
    return found;
  }

  TextOptions options_;
};

TEST_F(TokenCache, MakesTokensOnceAndThenAsksNobody) {
  const TokenizedText first = run();
  EXPECT_TRUE(first.is_new);
  EXPECT_THAT(first.paths, SizeIs(1));
  EXPECT_EQ(first.num_tokens, 2);
  EXPECT_EQ(first.separator, "<e>");
  options_.command = {"/no/such/program"};
  const TokenizedText again = run();
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.paths, first.paths);
  EXPECT_EQ(again.num_documents, 1);
  EXPECT_EQ(num_made(), 1);
}

TEST_F(TokenCache, KnowsTextsThatWereWrittenAgain) {
  const TokenizedText first = run();
  fs::remove(path("a.txt"));
  write("a.txt", "abc");
  fs::last_write_time(path("a.txt"), fs::file_time_type::clock::now());
  EXPECT_EQ(run().paths, first.paths);
  EXPECT_EQ(num_made(), 1);
}

TEST_F(TokenCache, MakesOthersForOtherTextsTokenizersAndOptions) {
  run();
  write("a.txt", "abd");
  run();
  write("m/tokenizer.json", "{ }");
  run();
  options_.text_key = "body";
  run();
  EXPECT_EQ(num_made(), 4);
  EXPECT_EQ(num_folders(), 4);
  // The same end of a text, told otherwise.
  options_.separator = "<e>";
  run();
  EXPECT_EQ(num_made(), 4);
}

TEST_F(TokenCache, DoesNotTakeWhatWasCut) {
  std::ofstream(run().paths.at(0)) << "a";
  EXPECT_THROW(run(), FileError);
}

TEST_F(TokenCache, TakesADamagedHintForNone) {
  const TokenizedText first = run();
  const std::string key = fs::path(first.paths.at(0)).parent_path().filename();
  for (const std::string& hint : {std::string(), std::string(100, 'a'),
                                  std::string(16, '/'), key + "\n", std::string("..")}) {
    std::ofstream(seen_file()) << hint;
    EXPECT_EQ(run().paths, first.paths) << hint;
  }
  EXPECT_EQ(num_made(), 1);
}

TEST_F(TokenCache, RefusesFilesWithoutNames) {
  const fs::path about = fs::path(run().paths.at(0)).parent_path() / "about.json";
  for (const char* files : {R"([["", 2]])", R"([["..", 2]])", "[]"}) {
    std::ofstream(about) << R"({"tokens": 2, "documents": 1, "separator": "<e>", )"
                         << R"("separator_shown": "", "examples": false, "files": )"
                         << files << "}";
    EXPECT_THROW(run(), FileError) << files;
  }
}

TEST_F(TokenCache, NamesTheFileOfTheTokenizerThatCannotBeRead) {
  for (const std::string name : {"tokenizer_config.json", "chat_template.jinja"}) {
    const std::string file = path("m/" + name);
    fs::create_directory(file);
    EXPECT_THAT(error_of_run().what(), HasSubstr("no regular file")) << name;
    fs::remove(file);
    fs::create_symlink(file, file);
    const Error error = error_of_run();
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.where(), file);
    EXPECT_THAT(error.cure(), HasSubstr("--tokenizer DIR"));
    fs::remove(file);
  }
}

TEST_F(TokenCache, ReadsATemplateThroughALink) {
  write("a.jsonl", "{}");
  write("b", "{{ strftime_now('%Y') }}");
  fs::create_symlink(path("b"), path("m/chat_template.jinja"));
  EXPECT_NO_THROW(tokenize(data::TokenSource({path("a.jsonl")}), options_));
}

TEST_F(TokenCache, LeavesNothingOfWhatFails) {
  options_.command = {"sh", "-c", "read -r q; echo '{}'; read -r q; echo '{}'"};
  EXPECT_ANY_THROW(run());
  EXPECT_EQ(num_folders(), 0);
}

TEST_F(TokenCache, RemovesWhatADeadProcessLeftAndNoOther) {
  const auto part = [&] { return path("cache/" + checkpoint::temporary_name("tokens")); };
  const std::string dead = part(), alive = part();
  fs::create_directories(dead);
  fs::create_directories(alive);
  const checkpoint::Folder held(alive);
  ASSERT_EQ(::flock(held.descriptor(), LOCK_EX | LOCK_NB), 0);
  run();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
}

// By what the first texts became, 10^18 bytes of 3.
TEST_F(TokenCache, NeedsRoomForWhatIsNotReadYetAlone) {
  std::string& script = options_.command.back();
  const std::string written = "\"written\": 2";
  script.replace(script.find(written), written.size(),
                 "\"written\": 1" + std::string(18, '0'));
  EXPECT_NO_THROW(run()) << "all is read";
  write("a.txt", "abcdef");
  const Error error = error_of_run();
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("the tokens of these texts need about"));
  EXPECT_THAT(error.what(), HasSubstr("--token-cache"));
}

TEST_F(TokenCache, NamesTheFolderThatCannotBe) {
  write("file", "");
  options_.cache = path("file") + "/cache";
  const Error error = error_of_run();
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("--token-cache"));
}

TEST_F(TokenCache, NamesTheFolderThatTakesNothing) {
  fs::create_directory(path("cache"));
  fs::permissions(path("cache"), fs::perms(0555));
  fs::permissions(path(""), fs::perms(0755));
  ::setfsuid(65534);  // root writes everywhere
  const bool is_open = std::ofstream(path("cache/a")).is_open();
  const Error error = error_of_run();
  ::setfsuid(::geteuid());
  if (is_open) GTEST_SKIP() << "this user writes everywhere";
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_EQ(error.where(), path("cache"));
  EXPECT_THAT(error.what(), HasSubstr("--token-cache"));
}

}  // namespace
}  // namespace zero::launcher::token_cache_test
