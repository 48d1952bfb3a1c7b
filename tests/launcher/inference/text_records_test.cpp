#include "launcher/inference/text_records.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"

namespace zero::launcher::text_records_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MadeWith kWith = {"aa", "bb"};
const std::vector<PromptLine> kPrompts = {{1, "one"}, {3, {{"messages", {"x"}}}}};

std::string record(int64_t line, int64_t sample, const MadeWith& with = kWith) {
  MadeText made{line,
                sample,
                {"", "text", {{1, 2}, Finish::kEnd, std::vector{-0.5, -1.0}}},
                12.345};
  return to_record(made, kPrompts[line / 2], with);
}

class Records : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string written() const {
    std::ostringstream whole;
    whole << std::ifstream(path_).rdbuf();
    return whole.str();
  }
  std::string problem(const MadeWith& with = kWith,
                      const std::vector<PromptLine>& prompts = kPrompts) const {
    try {
      TextRecords(path_, prompts, with);
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  }

  TempFolder folder_;
  const std::string path_ = folder_.path("texts.jsonl");
};

TEST_F(Records, AreWrittenByOneProcess) {
  const TextRecords first(path_, kPrompts, kWith);
  EXPECT_THAT(problem(), HasSubstr("another process"));
}

TEST_F(Records, TellAllOfAText) {
  const json told = json::parse(record(3, 1));
  EXPECT_EQ(told["line"], 3);
  EXPECT_EQ(told["sample"], 1);
  EXPECT_EQ(told["prompt"], kPrompts[1].asked);
  EXPECT_EQ(told["text"], "text");
  EXPECT_EQ(told["tokens"], json({1, 2}));
  EXPECT_EQ(told["finish"], "end");
  EXPECT_EQ(told["log_probs"], json({-0.5, -1.0}));
  EXPECT_EQ(told["tokens_per_second"], 12.3);
  EXPECT_FALSE(json::parse(to_record({}, kPrompts[0], kWith)).contains("log_probs"));
  MadeText ended_at_once;
  ended_at_once.text.end.log_probs.emplace();
  EXPECT_EQ(json::parse(to_record(ended_at_once, kPrompts[0], kWith))["log_probs"],
            json::array());
}

TEST_F(Records, AreThereAtOnceAndInOrderAtTheEnd) {
  TextRecords records(path_, kPrompts, kWith);
  records.add({record(3, 0)});
  records.add({record(1, 1), record(1, 0)});
  EXPECT_EQ(written(), record(3, 0) + "\n" + record(1, 1) + "\n" + record(1, 0) + "\n");
  records.finish();
  EXPECT_EQ(written(), record(1, 0) + "\n" + record(1, 1) + "\n" + record(3, 0) + "\n");
}

TEST_F(Records, AreGoneOnWith) {
  write(record(3, 0) + "\n" + record(1, 0).substr(0, 30));
  TextRecords records(path_, kPrompts, kWith);
  EXPECT_TRUE(records.has({3, 0}));
  EXPECT_FALSE(records.has({1, 0})) << "its line was cut off";
  records.add({record(1, 0)});
  records.finish();
  EXPECT_EQ(written(), record(1, 0) + "\n" + record(3, 0) + "\n");
}

TEST_F(Records, WithoutAnEndOfLineAreWhole) {
  write(record(3, 0));
  EXPECT_THAT(problem({"aa", "other"}), HasSubstr("other settings"));
  EXPECT_EQ(written(), record(3, 0));
  TextRecords records(path_, kPrompts, kWith);
  EXPECT_TRUE(records.has({3, 0}));
  records.add({record(1, 0)});
  EXPECT_EQ(written(), record(3, 0) + "\n" + record(1, 0) + "\n");
}

TEST_F(Records, AreGoneOnWithWhereverTheFirstWasCut) {
  for (size_t bytes = 0; bytes < record(1, 0).size(); ++bytes) {
    write(record(1, 0).substr(0, bytes));
    TextRecords records(path_, kPrompts, kWith);
    records.add({record(1, 0)});
    records.finish();
    EXPECT_EQ(written(), record(1, 0) + "\n") << bytes;
  }
}

TEST_F(Records, OfSomethingElseAreRefusedAndStay) {
  const std::string text = record(1, 0) + "\n";
  write(text);
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(problem({"other", "bb"}), HasSubstr("another model"));
  EXPECT_THAT(problem({"aa", "other"}), HasSubstr("other settings"));
  EXPECT_THAT(problem(kWith, {{1, "other"}}), HasSubstr("another prompt in line 1"));
  EXPECT_THAT(problem(kWith, {{2, "one"}}), HasSubstr("another prompt in line 1"));
  std::vector<PromptLine> others = kPrompts;
  others[0].tokens_hash = "other";
  EXPECT_THAT(problem(kWith, others), HasSubstr("other tokens"));
  std::filesystem::create_symlink(path_, folder_.path("link"));
  EXPECT_THROW(TextRecords(folder_.path("link"), kPrompts, kWith), Error);
  EXPECT_EQ(written(), text);
  for (const std::string other :
       {"hello", "hello\n", "{}\n", "{\"line\":1}\n", "{\"line\":1}", "[]\n", "\n"}) {
    write(other);
    EXPECT_THAT(problem(), HasSubstr("something else")) << other;
    EXPECT_EQ(written(), other);
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(problem(), HasSubstr("no regular file"));
  EXPECT_THROW(TextRecords("/none/x", kPrompts, kWith), Error);
}

}  // namespace
}  // namespace zero::launcher::text_records_test
