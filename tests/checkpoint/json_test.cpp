#include "checkpoint/json.h"

#include "support.h"

namespace zero::checkpoint::testing {
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

TEST(JsonTest, TheSameKeyInOtherObjectsIsFine) {
  EXPECT_NO_THROW(parse_strictly(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", "x"));
}

TEST(JsonTest, FieldsHaveTypesAndRanges) {
  const auto json = parse_strictly(
      R"({"i":7,"big":18446744073709551615,"float":7.0,"neg":-1,"s":"t","n":null})", "x");
  Fields fields(json, "x", "");
  EXPECT_EQ(fields.integer("i", 0, 7), 7);
  EXPECT_THROW(fields.integer("i", 0, 6), CheckpointError);
  EXPECT_THROW(fields.integer("big", 0, INT64_MAX), CheckpointError);
  EXPECT_THROW(fields.integer("float", 0, 10), CheckpointError);
  EXPECT_THROW(fields.integer("neg", 0, 10), CheckpointError);
  EXPECT_THROW(fields.integer("s", 0, 10), CheckpointError);
  EXPECT_THROW(fields.text("n"), CheckpointError);
  EXPECT_THROW(fields.text("absent"), CheckpointError);
}

TEST(JsonTest, UnknownFieldsAreRefused) {
  const auto json = parse_strictly(R"({"a":1,"b":2})", "x");
  Fields fields(json, "x", "");
  fields.integer("a", 0, 9);
  EXPECT_THROW(fields.done(), CheckpointError);
}

}  // namespace
}  // namespace zero::checkpoint::testing
