#include "checkpoint/json.h"

#include <gmock/gmock.h>

#include "support.h"

namespace zero::checkpoint::testing::json_test {
namespace {

TEST(JsonTest, RefusesWhatIsNotStrict) {
  for (const auto& text :
       {std::string("{"), std::string("{} x"), std::string(R"({"a":1,"a":2})"),
        std::string(R"([{"b":{"a":1,"a":2}}])"), std::string("{\"a\":\"\xff\"}"),
        std::string("[1e400]"), std::string("[NaN]"), std::string(100000, '['),
        std::string()}) {
    EXPECT_THROW(parse_strictly(text, "x"), CheckpointError) << text.substr(0, 40);
  }
}

TEST(JsonTest, IsNestedSoDeepAndNoDeeper) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse_strictly(nested(kMaxJsonDepth), "x"));
  EXPECT_EQ(error_of([&] { parse_strictly(nested(kMaxJsonDepth + 1), "x"); }),
            "x: is nested too deeply");
}

TEST(JsonTest, TellsWhereItEnds) {
  EXPECT_THAT(error_of([] { parse_strictly("{", "x"); }),
              ::testing::StartsWith("x: is not JSON: parse error at line 1"));
}

TEST(JsonTest, LongValuesAreShownInPart) {
  EXPECT_EQ(shown(std::string(58, 'a')), '"' + std::string(58, 'a') + '"');
  EXPECT_EQ(shown(std::string(59, 'a')), '"' + std::string(59, 'a') + "...");
}

TEST(JsonTest, TheSameKeyInOtherObjectsIsFine) {
  EXPECT_NO_THROW(parse_strictly(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", "x"));
}

TEST(JsonTest, AZeroByteIsNotTheEnd) {
  EXPECT_THROW(parse_strictly(std::string("{}\0{", 4), "x"), CheckpointError);
  EXPECT_THROW(parse_strictly(std::string("{}\0", 3), "x"), CheckpointError);
}

// Each value with the keys that lead to it.
std::vector<std::string> members_of(const std::string& text, size_t depth) {
  std::vector<std::string> members;
  parse_members(text, "x", depth, [&](const auto& path, const auto& value) {
    std::string member;
    for (const auto& key : path) member += key + "/";
    members.push_back(member + " " + value.dump());
  });
  return members;
}

TEST(JsonTest, MembersAreGivenOneAtATime) {
  const std::string text = R"({"a":1,"b":{"c":[1,{"d":2}],"e":{}},"f":[{"g":3}]})";
  EXPECT_EQ(members_of(text, 1),
            (std::vector<std::string>{"a/ 1", R"(b/ {"c":[1,{"d":2}],"e":{}})",
                                      R"(f/ [{"g":3}])", " {}"}));
  EXPECT_EQ(members_of(text, 2),
            (std::vector<std::string>{"a/ 1", R"(b/c/ [1,{"d":2}])", "b/e/ {}", "b/ {}",
                                      R"(f/ [{"g":3}])", " {}"}));
  EXPECT_EQ(members_of("[1]", 1), std::vector<std::string>{" [1]"});
}

TEST(JsonTest, MembersAreParsedAsStrictly) {
  for (const char* text : {R"({"a":1,"a":1})", R"({"a":{"b":1,"b":1}})", "{\"a\":1", ""})
    EXPECT_THROW(members_of(text, 1), CheckpointError) << text;
  const std::string open(100000, '[');
  EXPECT_THROW(members_of("{\"a\":" + open, 1), CheckpointError);
}

TEST(JsonTest, MembersAreNotTooMany) {
  std::string values = "[0", members = "{\"0\":0";
  for (size_t i = 1; i < kMaxJsonMembers; ++i) {
    values += ",0";
    members += ",\"" + std::to_string(i) + "\":0";
  }
  EXPECT_NO_THROW(members_of("{\"a\":" + values + "],\"b\":" + values + "]}", 1));
  EXPECT_THROW(members_of("{\"a\":" + values + ",0]}", 1), CheckpointError);
  EXPECT_NO_THROW(members_of(members + "}", 1));
  EXPECT_THROW(members_of(members + ",\"one\":0}", 1), CheckpointError);
}

TEST(JsonTest, FieldsHaveTypesAndRanges) {
  const auto json = parse_strictly(
      R"({"i":7,"big":18446744073709551615,"float":7.0,"neg":-1,"s":"t","n":null})", "x");
  Fields fields(json, "x", "");
  EXPECT_EQ(fields.integer("i", 0, 7), 7);
  EXPECT_THROW(fields.integer("i", 0, 6), CheckpointError);
  EXPECT_THROW(fields.integer("big", INT64_MIN, INT64_MAX), CheckpointError);
  EXPECT_THROW(fields.integer("float", 0, 10), CheckpointError);
  EXPECT_THROW(fields.integer("neg", 0, 10), CheckpointError);
  EXPECT_THROW(fields.integer("s", 0, 10), CheckpointError);
  EXPECT_THROW(fields.text("n"), CheckpointError);
  EXPECT_THROW(fields.text("absent"), CheckpointError);
  EXPECT_EQ(error_of([&] { Fields(json, "x", "tensors[3]").text("absent"); }),
            "x: tensors[3] has no \"absent\"");
}

TEST(JsonTest, UnknownFieldsAreRefused) {
  const auto json = parse_strictly(R"({"a":1,"b":2})", "x");
  Fields fields(json, "x", "");
  fields.integer("a", 0, 9);
  EXPECT_THROW(fields.done(), CheckpointError);
}

}  // namespace
}  // namespace zero::checkpoint::testing::json_test
