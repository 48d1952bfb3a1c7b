// What checkpoints hold, and how they differ.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::look_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Look : public Scenario {
 protected:
  Look() {
    trained(1, "a", "5");
    trained(2, "b", "5");
  }
  void trained(int ranks, const std::string& out, const std::string& seed) {
    const Words flags = {"--steps=4", "--save-every=2", "--deterministic", "--seed",
                         seed};
    const Outcome outcome = run(ranks, train(out, flags));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
  }
  Outcome look(const std::string& name, Words words) { return run(0, verb(name, words)); }
};

TEST_F(Look, RunsOfOneAndTwoRanksAreEqualToTheLastMoment) {
  const Outcome equal = look("diff", {path("a"), path("b"), "--state"});
  EXPECT_EQ(equal.rc, 0) << equal.out << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("84 tensor(s): 84 equal"));
  const Outcome steps = look("diff", {path("a/step_000000000002"), path("a"), "--json"});
  EXPECT_EQ(steps.rc, 1) << steps.err;
  const json told = json::parse(steps.out);
  EXPECT_EQ(told["b"], path("a/step_000000000004"));
  EXPECT_EQ(told["numbers"]["differs"], 28);
  EXPECT_GT(told["tensors"][0]["largest"], 0);
}

TEST_F(Look, AnotherSeedDiffersAndAnExportDoesNot) {
  trained(1, "c", "6");
  const Outcome other = look("diff", {path("a"), path("c"), "--fqn", "*.wte.*"});
  EXPECT_EQ(other.rc, 1);
  EXPECT_THAT(other.out, ContainsRegex("wte.weight +params +differs"));
  EXPECT_EQ(look("export", {path("a"), "--to", path("hf")}).rc, 0);
  EXPECT_EQ(look("diff", {path("b"), path("hf")}).rc, 0);
  EXPECT_EQ(look("export", {path("a"), "--to", path("bf16"), "--dtype=bf16"}).rc, 0);
  const Outcome rounded = look("diff", {path("hf"), path("bf16"), "--json"});
  EXPECT_EQ(rounded.rc, 1);
  EXPECT_LT(json::parse(rounded.out)["tensors"][1]["relative"], 0.01);
}

TEST_F(Look, InspectTellsOfARunAStepASeedAndAFolderOfHuggingFace) {
  const Outcome page = look("inspect", {path("b")});
  EXPECT_EQ(page.rc, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("checkpoint of step 4 by 2 rank(s)"));
  EXPECT_THAT(page.out, HasSubstr("gpt2: 2 layers, dim 32, 2 heads, vocabulary 257"));
  EXPECT_THAT(page.out, HasSubstr("lm_head.weight is transformer.wte.weight"));
  EXPECT_THAT(page.out, HasSubstr("32 samples in 4 batches"));
  const Outcome norms = look("inspect", {path("a/step_000000000002"), "--norms", "--json",
                                         "--fqn", "*ln_f.weight"});
  const json told = json::parse(norms.out);
  EXPECT_EQ(told["step"], 2);
  EXPECT_EQ(told["parameters"], 34208);
  ASSERT_EQ(told["tensors"].size(), 1u);
  EXPECT_NEAR(told["tensors"][0]["norm"], std::sqrt(32.0), 0.1);
  EXPECT_EQ(look("seed", {"--dim=32", "--heads=2", "--out", path("seed")}).rc, 0);
  EXPECT_THAT(look("inspect", {path("seed")}).out,
              HasSubstr("step 0 by 1 rank(s), without an optimizer's state"));
  EXPECT_EQ(look("export", {path("a"), "--to", path("hf")}).rc, 0);
  EXPECT_THAT(look("inspect", {path("hf")}).out, HasSubstr("safetensors, written"));
}

TEST_F(Look, AFlippedByteOfAnyFileIsNamedByVerify) {
  const std::string step = path("b/step_000000000004");
  for (const auto& entry : fs::directory_iterator(step)) {
    const std::string file = entry.path(), whole = read_file(file);
    for (const size_t at : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      std::ofstream(file, std::ios::binary) << bytes;
      const Outcome outcome = look("verify", {step});
      EXPECT_EQ(outcome.rc, 5) << file << " at " << at;
      EXPECT_THAT(outcome.out, HasSubstr(file + ": "));
    }
    std::ofstream(file, std::ios::binary) << whole;
  }
  EXPECT_EQ(look("verify", {path("b")}).rc, 0);
  fs::rename(step, path("best"));
  EXPECT_THAT(look("verify", {path("best")}).out, HasSubstr("best: sound"));
}

TEST_F(Look, ADamagedStepIsPassedOverAndDamagedValuesAreAnError) {
  fs::remove(path("b/step_000000000004/manifest.json"));
  const Outcome older = look("inspect", {path("b")});
  EXPECT_EQ(older.rc, 0);
  EXPECT_THAT(older.out, HasSubstr("step 2 by 2 rank(s)"));
  EXPECT_THAT(older.out, ContainsRegex("newer, but damaged: .*step_000000000004"));
  EXPECT_EQ(look("inspect", {path("b/step_000000000004")}).rc, 5);
  const std::string shard = path("a/step_000000000004/shard_00000_of_00001.h5");
  std::string bytes = read_file(shard);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  const Outcome outcome = look("diff", {path("a"), path("a"), "--state"});
  EXPECT_EQ(outcome.rc, 5) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("do not have the hash that was recorded"));
}

}  // namespace
}  // namespace zero::scenarios::look_test
