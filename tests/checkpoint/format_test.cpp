#include "checkpoint/format.h"

#include "base/hash.h"
#include "support.h"

namespace zero::checkpoint::testing::format_test {
namespace {

TEST(FormatTest, NamesAreFixed) {
  EXPECT_EQ(step_folder(100), "step_000000000100");
  EXPECT_EQ(shard_file(0, 4), "shard_00000_of_00004.h5");
  EXPECT_TRUE(temporary_name("x").starts_with("zero.tmp.x."));
  EXPECT_NE(temporary_name("x"), temporary_name("x"));
  EXPECT_TRUE(is_temporary(temporary_name("000000000100")));
  for (const char* name :
       {"tmp.AbCdEf", "tmp.000000000100.0123456789abcdef", "zero.tmp.x", "zero.tmp.x.",
        "zero.tmp.x.0123", "zero.tmp.x.0123456789abcdeF", "zero.tmp.x.0123456789abcdef0",
        "zero.tmp..0123456789abcdef", "zero.tmp.a.b.0123456789abcdef",
        "zero.tmp.X.0123456789abcdef", "zero.tmp.x.0123456789abcdef~"}) {
    EXPECT_FALSE(is_temporary(name)) << name;
  }
  EXPECT_EQ(replaced_step_of(replaced_name(7)), 7);
  EXPECT_EQ(replaced_step_of(temporary_name("replaced7")), std::nullopt);
  EXPECT_EQ(replaced_step_of(temporary_name("purged")), std::nullopt);
}

TEST(FormatTest, OnlyExactFileNamesAreOurs) {
  for (const std::string& name :
       {shard_file(0, 4), shard_file(123, 4567), std::string(kManifestFile)})
    EXPECT_TRUE(belongs_to_checkpoint(name)) << name;
  for (const char* name :
       {"shard_0_of_4.h5", "shard_00000_of_00004.h5.bak", "shard_00000_of_00004.h5~",
        "shard_000-1_of_00004.h5", "shard_-0001_of_00004.h5", "shard_00001_of_-0004.h5",
        "shard_00000_of_00004", "manifest.json~", "notes"}) {
    EXPECT_FALSE(belongs_to_checkpoint(name)) << name;
  }
}

TEST(FormatTest, OnlyExactStepNamesCount) {
  EXPECT_EQ(step_of("step_000000000100"), 100);
  EXPECT_EQ(step_of(step_folder(INT64_MAX)), INT64_MAX);
  for (const char* name : {"step_100", "step_", "step_0000000000100", "step_-00000000100",
                           "step_000000000100.old", "Step_000000000100",
                           "step_99999999999999999999", "tmp.000000000100.ab"}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
}

TEST(FormatTest, TablesGoBothWays) {
  for (const Kind kind :
       {Kind::kParam, Kind::kExpAvg, Kind::kExpAvgSq, Kind::kBuffer, Kind::kUser})
    EXPECT_EQ(kind_named(name_of(kind)), kind);
  for (const DType dtype : {DType::kFp64, DType::kFp32, DType::kBf16, DType::kFp16,
                            DType::kInt64, DType::kInt32, DType::kUint8, DType::kBool}) {
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
    EXPECT_GT(size_of(dtype), 0);
  }
  EXPECT_EQ(dtype_named("fp8"), std::nullopt);
  EXPECT_EQ(kind_named("param"), std::nullopt);
}

TEST(FormatTest, HashesAreExactHexadecimal) {
  EXPECT_EQ(from_hex(to_hex(0x0123456789abcdefu)), 0x0123456789abcdefu);
  for (const char* digits :
       {"", "0", "0123456789ABCDEF", "0123456789abcdef0", "x", " 1"}) {
    EXPECT_EQ(from_hex(digits), std::nullopt) << digits;
  }
  EXPECT_EQ(hash_of("", 0), 0x2d06800538d394c2u);  // XXH3's own test value
}

TEST(FormatTest, HashingInPartsIsHashingAtOnce) {
  const std::string text(3000, 'z');
  Hasher hasher;
  hasher.add(text.data(), 1000);
  hasher.add(text.data() + 1000, 2000);
  EXPECT_EQ(hasher.digest(), hash_of(text.data(), text.size()));
}

}  // namespace
}  // namespace zero::checkpoint::testing::format_test
