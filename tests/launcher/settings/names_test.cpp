#include "launcher/settings/names.h"

#include <gtest/gtest.h>

namespace zero::launcher::names_test {
namespace {

const std::vector<std::string> kNames = {"lr", "min_lr", "seq_len", "warmup_steps"};

TEST(Names, NearestByLettersAddedDroppedChangedSwapped) {
  EXPECT_EQ(nearest("seq_lenn", kNames), "seq_len");
  EXPECT_EQ(nearest("seq-en", kNames), "seq_len");
  EXPECT_EQ(nearest("warmup_stesp", kNames), "warmup_steps");
  EXPECT_EQ(nearest("rl", kNames), "lr");
  EXPECT_EQ(nearest("seq-len", kNames), "seq_len");
}

TEST(Names, NearestByTheBeginningOfAWord) {
  EXPECT_EQ(nearest("warm", kNames), "warmup_steps");
  EXPECT_EQ(nearest("warmup", kNames), "warmup_steps");
  EXPECT_EQ(nearest("step", kNames), "warmup_steps");
  EXPECT_EQ(nearest("tiny", {"gpt2-tiny", "llama-tiny-2"}), "gpt2-tiny");
  EXPECT_EQ(nearest("up", kNames), "") << "too short to mean one";
}

TEST(Names, ValuesInTheWordsOfOthers) {
  const std::vector<std::string> types = {"fp32", "bf16", "fp16"};
  EXPECT_EQ(nearest_value("bfloat16", types), "bf16");
  EXPECT_EQ(nearest_value("float16", types), "fp16");
  EXPECT_EQ(nearest_value("fp8", types), "") << "as near to two";
  EXPECT_EQ(nearest_value("cosin", {"constant", "linear", "cosine"}), "cosine");
  EXPECT_EQ(nearest_value("adamw_torch", {"adamw", "sgd"}), "adamw");
  EXPECT_EQ(nearest_value("cpu_adam", {"adamw", "sgd"}),
            "adamw, with offload optimizer or all");
  EXPECT_EQ(nearest_value("every:0", {"unit", "none", "every:K"}), "");
}

TEST(Names, NothingIsOfferedFromAfar) {
  EXPECT_EQ(nearest("xy", kNames), "");
  EXPECT_EQ(nearest("hippopotamus", kNames), "");
  EXPECT_EQ(nearest("", kNames), "");
}

TEST(Names, OneSlipInAShortNameTwoInALongOne) {
  EXPECT_TRUE(is_near("setps", "steps"));
  EXPECT_TRUE(is_near("dypte", "dtype")) << "the same letters";
  EXPECT_FALSE(is_near("stop", "steps"));
  EXPECT_FALSE(is_near("bias", "betas"));
  EXPECT_TRUE(is_near("warmpu-step", "warmup_steps"));
  EXPECT_FALSE(is_near("warmpu-ste", "warmup_steps"));
  EXPECT_FALSE(is_near("x", "y")) << "nothing would be left of it";
}

}  // namespace
}  // namespace zero::launcher::names_test
