#include "launcher/inference/prompt_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"

namespace zero::launcher::prompt_file_test {
namespace {

using json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class PromptFile : public ::testing::Test {
 protected:
  std::vector<PromptLine> read(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path(name);
    std::ofstream(path) << text;
    return read_prompts(path);
  }
  std::string wrong(const std::string& line) const {
    return read("a.jsonl", line + "\n").at(0).wrong;
  }

  TempFolder folder_;
};

TEST_F(PromptFile, LinesAreTextsAndKeepTheirNumbers) {
  const auto lines =
      read("a.txt", "\xef\xbb\xbfone\r\n\n  \n{\"prompt\": \"x\"}\nlast\xff");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].asked, "one");
  EXPECT_EQ(lines[1].line, 4);
  EXPECT_EQ(lines[1].asked, "{\"prompt\": \"x\"}") << "of a file of texts";
  EXPECT_THAT(lines[2].wrong, HasSubstr("UTF-8"));
}

TEST_F(PromptFile, ObjectsHavePromptsOrMessages) {
  const json messages = {{{"role", "user"}, {"content", "hi"}}};
  const auto lines = read("a.jsonl", json{{"prompt", "one"}, {"id", 7}}.dump() + "\n" +
                                         json{{"messages", messages}}.dump() + "\n" +
                                         json{{"prompt", messages}, {"tools", 1}}.dump());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].asked, "one");
  EXPECT_EQ(lines[1].asked, json({{"messages", messages}}));
  EXPECT_EQ(lines[2].asked, json({{"tools", 1}, {"messages", messages}}));
  for (const PromptLine& line : lines) EXPECT_EQ(line.wrong, "");
}

TEST_F(PromptFile, KeysStayInTheirOrder) {
  const std::string line = R"({"tools":[{"type":1,"b":2,"a":3}],"messages":["x"]})";
  EXPECT_EQ(read("a.jsonl", line + "\n").at(0).asked.dump(), line);
}

TEST_F(PromptFile, WrongLinesAreTold) {
  EXPECT_THAT(wrong("{"), HasSubstr("no JSON"));
  EXPECT_THAT(wrong("7"), HasSubstr("no object"));
  EXPECT_THAT(
      wrong("{\"a\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}"),
      HasSubstr("too deeply"));
  EXPECT_THAT(wrong("{}"), HasSubstr("neither"));
  EXPECT_THAT(wrong(R"({"messages": []})"), HasSubstr("no messages"));
  EXPECT_THAT(wrong(R"({"messages": ["a"], "prompt": "b"})"), HasSubstr("both"));
  EXPECT_EQ(wrong(R"({"messages": null, "prompt": "b"})"), "");
  EXPECT_THAT(wrong(R"({"prompt": 7})"), HasSubstr("no messages"));
}

TEST_F(PromptFile, FilesWithoutPromptsAreRefused) {
  EXPECT_THROW(read("a.txt", "\n \n"), Error);
  EXPECT_THROW(read_prompts(folder_.path("")), Error);
  EXPECT_THROW(read_prompts(folder_.path("none")), Error);
}

}  // namespace
}  // namespace zero::launcher::prompt_file_test
