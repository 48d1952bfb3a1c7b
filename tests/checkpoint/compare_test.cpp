#include "checkpoint/compare.h"

#include <gmock/gmock.h>

#include "support.h"

namespace zero::checkpoint::testing::compare_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompareTest : public CheckpointTest {
 protected:
  CompareTest()
      : manifest(Reader(save(model, {.aliases = {{"head", "wte"}}})).manifest()) {
    for (const auto& tensor : model) {
      expected.push_back({tensor.kind, tensor.fqn, tensor.dtype, tensor.shape});
    }
  }

  const TestModel model = {make_tensor(Kind::kParam, "wte", DType::kFp32, {4, 2}),
                           make_tensor(Kind::kParam, "blocks.0.w", DType::kFp32, {3}),
                           make_tensor(Kind::kParam, "half", DType::kBf16, {3}),
                           make_tensor(Kind::kExpAvg, "wte", DType::kFp32, {4, 2}),
                           make_tensor(Kind::kBuffer, "mask", DType::kBool, {2})};
  Manifest manifest;
  std::vector<StoredTensor> expected;
};

TEST_F(CompareTest, TheSameModelHasNone) {
  EXPECT_TRUE(compare(expected, manifest).empty());
  EXPECT_NO_THROW(require_none(compare(expected, manifest), "x"));
}

TEST_F(CompareTest, OneErrorListsAll) {
  expected[0].shape = {4, 3};
  expected[2].dtype = DType::kFp16;
  expected.erase(expected.begin() + 1);
  expected.push_back({Kind::kParam, "new", DType::kFp32, {7}});
  EXPECT_EQ(
      error_of([&] { require_none(compare(expected, manifest), "runs/a/step"); }),
      "runs/a/step: 4 differences from the model\n"
      "  missing params/new: the model has (7)\n"
      "  extra params/blocks.0.w: the checkpoint has (3)\n"
      "  shape params/wte: the model has (4, 3), the checkpoint has (4, 2)\n"
      "  type params/half: the model has fp16, the checkpoint has bf16; load it into "
      "the model it was saved from, of the same sizes, or allow missing and extra "
      "names");
}

TEST_F(CompareTest, DifferencesAreCounted) {
  EXPECT_THAT(error_of([] { require_none({"a"}, "x"); }),
              HasSubstr("x: 1 difference from the model\n  a;"));
  EXPECT_THAT(error_of([] {
                require_none({"a", "b"}, "x");
              }),
              HasSubstr("x: 2 differences from the model\n  a\n  b;"));
}

TEST_F(CompareTest, PatternsAllowWhatIsWanted) {
  expected.erase(expected.begin() + 1);
  expected.push_back({Kind::kParam, "blocks.7.w", DType::kFp32, {7}});
  EXPECT_TRUE(compare(expected, manifest, /*with_state=*/false,
                      {.missing = {"blocks.7.*"}, .extra = {"x", "blocks.?.w"}})
                  .empty());
  EXPECT_THAT(compare(expected, manifest, /*with_state=*/false,
                      {.missing = {"blocks.7"}, .extra = {"*"}}),
              ElementsAre("missing params/blocks.7.w: the model has (7)"));
}

TEST_F(CompareTest, StatesAreExtraWhereTheyAreWanted) {
  const std::vector<StoredTensor> params(expected.begin(), expected.begin() + 3);
  EXPECT_THAT(compare(params, manifest, /*with_state=*/false),
              ElementsAre("extra buffers/mask: the checkpoint has (2)"));
  EXPECT_THAT(compare(params, manifest),
              ElementsAre("extra exp_avg/wte: the checkpoint has (4, 2)",
                          "extra buffers/mask: the checkpoint has (2)"));
}

TEST_F(CompareTest, AliasesCountAsPresent) {
  expected[0].fqn = "head";
  EXPECT_TRUE(compare(expected, manifest, /*with_state=*/false).empty());
}

}  // namespace
}  // namespace zero::checkpoint::testing::compare_test
