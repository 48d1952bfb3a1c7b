// A fault must be seen: runs that differ in the last digit, in one bit, or by a line.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "launcher/selftest/promises.h"
#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::compare_test {
namespace {

namespace fs = std::filesystem;
using checkpoint::testing::small_model;
using checkpoint::testing::TestModel;
using nlohmann::json;
using ::testing::HasSubstr;

json step(int64_t number, double loss, double norm) {
  return {{"type", "step"}, {"step", number}, {"loss", loss}, {"grad_norm", norm}};
}
json eval(int64_t number, double loss) {
  return {{"type", "eval"}, {"step", number}, {"loss", loss}};
}

const std::vector<json> kNumbers = {step(1, 5.5, 1.25), step(2, 5.25, 1), eval(2, 5.125)};

TEST(CompareNumbers, TheSameAreTheSame) {
  const Comparison compared = compare_numbers(kNumbers, kNumbers);
  EXPECT_TRUE(compared.is_same);
  EXPECT_EQ(compared.text, "2 losses and norms, 1 evaluations");
}

TEST(CompareNumbers, TheLastDigitOfAnyNumberCounts) {
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    for (const auto& [key, value] : kNumbers[i].items()) {
      if (!value.is_number()) continue;
      auto other = kNumbers;
      if (value.is_number_integer())
        other[i][key] = value.get<int64_t>() + 1;
      else
        other[i][key] = std::nextafter(value.get<double>(), 9.0);
      EXPECT_FALSE(compare_numbers(kNumbers, other).is_same) << i << key;
      EXPECT_FALSE(compare_numbers(other, kNumbers).is_same) << i << key;
    }
  }
}

TEST(CompareNumbers, TheFirstDifferenceIsTold) {
  auto other = kNumbers;
  other[1]["loss"] = 5.0;
  EXPECT_EQ(compare_numbers(kNumbers, other).text,
            "step 2: loss 5.25, norm 1.0, and step 2: loss 5.0, norm 1.0");
}

TEST(CompareNumbers, OneMoreOrNoneAreNotTheSame) {
  const std::vector<json> fewer(kNumbers.begin(), kNumbers.end() - 1);
  EXPECT_FALSE(compare_numbers(kNumbers, fewer).is_same);
  EXPECT_FALSE(compare_numbers(fewer, kNumbers).is_same);
  EXPECT_FALSE(compare_numbers({}, {}).is_same);
  EXPECT_FALSE(compare_numbers({eval(1, 2)}, {eval(1, 2)}).is_same);
}

TEST(CompareEvaluation, TheLossThatEvalPrints) {
  const std::string printed = "eval step 2 | loss 5.125000 | ppl 168.1 | ...\n";
  EXPECT_TRUE(compare_evaluation(printed, kNumbers).is_same);
  auto other = kNumbers;
  other[2]["loss"] = 5.125001;
  EXPECT_FALSE(compare_evaluation(printed, other).is_same);
  other[2]["loss"] = nullptr;
  EXPECT_FALSE(compare_evaluation(printed, other).is_same);
  other.pop_back();
  EXPECT_FALSE(compare_evaluation(printed, other).is_same);
  EXPECT_FALSE(compare_evaluation(printed, {}).is_same);
}

// Two runs, "a" and "b".
class CompareRuns : public checkpoint::testing::CheckpointTest {
 protected:
  std::string folder(const std::string& name) const { return run + "/../" + name; }
  void put(const std::string& name, const TestModel& model,
           const std::vector<json>& numbers = kNumbers) {
    fs::create_directory(folder(name));
    fs::rename(save(model, {}), folder(name) + "/step_000000000100");
    std::ofstream metrics(folder(name) + "/metrics.jsonl");
    metrics << R"({"type":"run"})" << '\n';
    for (json record : numbers) {
      record["seconds"] = numbers.size() + name.size() + name[0];  // no two alike
      metrics << record << '\n';
    }
  }
  Comparison compare() const { return compare_runs(folder("a"), folder("b")); }
};

TEST_F(CompareRuns, TheSameAreTheSame) {
  put("a", small_model());
  put("b", small_model());
  EXPECT_TRUE(compare().is_same);
  EXPECT_EQ(compare().text, "2 losses and norms, 1 evaluations; 23 tensors, bit for bit");
}

TEST_F(CompareRuns, OneBitOfAnyTensorCounts) {
  put("a", small_model());
  for (size_t i = 0; i < small_model().size(); ++i) {
    TestModel model = small_model();
    if (model[i].bytes.empty()) continue;
    model[i].bytes.back() ^= 1;
    put("b", model);
    EXPECT_FALSE(compare().is_same) << model[i].fqn;
    EXPECT_THAT(compare().text, HasSubstr("1 of 23 tensors are not equal"));
    EXPECT_THAT(compare().text, HasSubstr(model[i].fqn));
    fs::remove_all(folder("b"));
  }
}

TEST_F(CompareRuns, EqualTensorsDoNotMakeUpForLosses) {
  put("a", small_model());
  put("b", small_model(), {step(1, 5.5, 1.25), step(2, 5.25, 1), eval(2, 5)});
  EXPECT_FALSE(compare().is_same);
  EXPECT_THAT(compare().text, HasSubstr("eval 2: loss 5.125, and eval 2: loss 5.0"));
}

TEST_F(CompareRuns, TheNormsOfTheirMetricsCount) {
  put("a", small_model());
  put("b", small_model(), {step(1, 5.5, 1.25), step(2, 5.25, 2), eval(2, 5.125)});
  EXPECT_FALSE(compare().is_same);
}

TEST_F(CompareRuns, MastersThatHadAGradientMustHaveMoved) {
  const auto look = [&](const json& masters) {
    fs::remove_all(folder("a"));
    put("a", small_model(), {masters});
    return look_at_movement(folder("a"));
  };
  json masters = {{"type", "masters"}, {"trained", 3}, {"moved", 2}, {"stuck", {}}};
  EXPECT_TRUE(look(masters).is_same);
  EXPECT_EQ(look(masters).text, "masters fp32, 2 of 3 trainable parameters moved");
  masters["stuck"] = {"w"};
  EXPECT_FALSE(look(masters).is_same);
  masters["stuck"] = json::array(), masters["moved"] = 0;
  EXPECT_FALSE(look(masters).is_same);
  EXPECT_FALSE(look(kNumbers[0]).is_same);
}

TEST_F(CompareRuns, AFrozenParameterStaysAndOthersDoNot) {
  put("a", small_model());
  TestModel model = small_model();
  const auto compare_with = [&](const TestModel& other, const std::string& fqn) {
    fs::remove_all(folder("b"));
    put("b", other);
    return compare_frozen(folder("a"), folder("b"), fqn);
  };
  const std::string first = model[0].fqn;
  EXPECT_FALSE(compare_with(model, first).is_same) << "nothing else has moved";
  size_t other = 1;
  while (model[other].fqn == first || model[other].bytes.empty()) ++other;
  model[other].bytes.back() ^= 1;
  EXPECT_TRUE(compare_with(model, first).is_same);
  EXPECT_THAT(compare_with(model, first).text, HasSubstr("and 1 others moved"));
  EXPECT_FALSE(compare_with(model, model[other].fqn).is_same);
}

TEST_F(CompareRuns, ARunThatLeftNothingIsAnError) {
  put("a", small_model());
  EXPECT_THROW(compare(), Error);
  put("b", small_model());
  std::ofstream(folder("b") + "/metrics.jsonl") << "torn\n";
  EXPECT_THROW(compare(), Error);
}

}  // namespace
}  // namespace zero::launcher::compare_test
