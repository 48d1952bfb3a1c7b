#include "launcher/data/example_source.h"

#include <bit>

#include "launcher/data/samples.h"
#include "tests/launcher/data/data_files.h"

namespace zero::data::example_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Three examples of 3, 5 and 2 tokens.
class ExampleSourceTest : public DataFiles {
 protected:
  void SetUp() override {
    DataFiles::SetUp();
    write("t.tok", llmq({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 20));
    write_targets({0, 0, 1, 0, 0, 1, 0, 1, 1, 1});
    write_index({0, 3, 8, 10});
  }
  void write_targets(const std::vector<unsigned char>& targets) const {
    write("targets", bytes_of(targets));
  }
  void write_index(const std::vector<int64_t>& begins) const {
    std::vector<int64_t> words;
    for (size_t i = 0; i < begins.size(); ++i) {
      const int64_t line = i + 1 < begins.size() ? static_cast<int64_t>(i) + 11 : -1;
      words.push_back(begins[i]);
      words.push_back(line << 32 | (line < 0 ? 0xffffffff : 0));
    }
    write("index", bytes_of(words));
  }
  ExampleSource source(TooLong too_long = TooLong::kError) const {
    return {{{path("t.tok")}, path("targets"), path("index"), {"a.jsonl"}, "messages"},
            too_long};
  }
  static Batch read(const ExampleSource& source, int64_t seq_len,
                    const SampleOrder& order = {.shuffle = false}) {
    const auto samples = source.samples({.seq_len = seq_len}, order);
    std::vector<int64_t> all(samples->num_samples());
    std::iota(all.begin(), all.end(), 0);
    Batch batch = samples->empty_batch(samples->num_samples());
    samples->read(all, batch);
    return batch;
  }
};

TEST_F(ExampleSourceTest, EachExampleIsARowWhoseTrainedTokensAreTargets) {
  const Batch batch = read(source(), 4);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_THAT(batch.inputs, ElementsAre(1, 2, 0, 0, 4, 5, 6, 7, 9, 0, 0, 0));
  // A first token is nobody's target.
  EXPECT_THAT(batch.targets, ElementsAre(-1, 3, -1, -1, -1, 6, -1, 8, 10, -1, -1, -1));
  EXPECT_EQ(batch.num_targets(), 4);
}

TEST_F(ExampleSourceTest, TellsWhatItHolds) {
  EXPECT_EQ(source().describe(),
            "messages, 3 examples, 10 tokens, 4 of them trained; the longest has 5");
  EXPECT_EQ(source().vocab_size(), 20);
  EXPECT_EQ(source().num_samples({.seq_len = 4}), 3);
  EXPECT_THAT(source().notes({.seq_len = 4}), IsEmpty());
  const auto shown = source().shown_sample({.seq_len = 4});
  ASSERT_TRUE(shown);
  EXPECT_THAT(shown->tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(shown->trained, ElementsAre(false, false, true));
  EXPECT_EQ(shown->where, "a.jsonl, line 11");
  EXPECT_THROW(source().check_ids(10), DataError);
}

TEST_F(ExampleSourceTest, SaysWhereItsTextsLie) {
  EXPECT_EQ(source().where(), "a.jsonl");
  const ExampleSource many({{path("t.tok")},
                            path("targets"),
                            path("index"),
                            std::vector<std::string>(1235, "a.jsonl"),
                            "messages"},
                           TooLong::kError);
  EXPECT_EQ(many.where(), "a.jsonl and 1,234 more");
}

TEST_F(ExampleSourceTest, ThoseThatAreTooLongAreErrors) {
  try {
    source().num_samples({.seq_len = 3});
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 of 3 examples are longer"));
    EXPECT_THAT(error.what(), HasSubstr("a.jsonl, line 12: 5 tokens"));
    EXPECT_THAT(error.what(), HasSubstr("--seq-len 4"));
  }
}

TEST_F(ExampleSourceTest, OfThoseThatAreTooLongTwentyAreNamed) {
  const auto complaint = [&](size_t count) -> std::string {
    write("t.tok", llmq(std::vector<uint32_t>(2 * count, 1), 20));
    write_targets(std::vector<unsigned char>(2 * count, 1));
    std::vector<int64_t> begins;
    for (size_t i = 0; i <= count; ++i) begins.push_back(static_cast<int64_t>(2 * i));
    write_index(begins);
    try {
      source().num_samples({.seq_len = 0});
    } catch (const DataError& error) {
      return error.problem();
    }
    return "";
  };
  EXPECT_THAT(complaint(20), ::testing::EndsWith("\n  - a.jsonl, line 30: 2 tokens"));
  EXPECT_THAT(complaint(21),
              ::testing::EndsWith("\n  - a.jsonl, line 30: 2 tokens\n  - ..."));
}

TEST_F(ExampleSourceTest, OrTheyAreLeftOut) {
  EXPECT_THAT(read(source(TooLong::kDrop), 3).inputs, ElementsAre(1, 2, 0, 9, 0, 0));
  EXPECT_THAT(source(TooLong::kDrop).notes({.seq_len = 3}),
              ElementsAre("1 of 3 examples are longer than 3 tokens: all are left out"));
  EXPECT_THROW(source(TooLong::kDrop).num_samples({.seq_len = 0}), DataError);
}

TEST_F(ExampleSourceTest, OrCutWhereSomethingTrainedRemains) {
  const Batch batch = read(source(TooLong::kTruncate), 2);
  EXPECT_THAT(batch.inputs, ElementsAre(1, 2, 4, 5, 9, 0));
  EXPECT_THAT(batch.targets, ElementsAre(-1, 3, -1, 6, 10, -1));
  EXPECT_EQ(source(TooLong::kTruncate).num_samples({.seq_len = 1}), 1);
  EXPECT_THAT(source(TooLong::kTruncate).notes({.seq_len = 1}),
              ElementsAre("2 of 3 examples are longer than 1 tokens: all are left out"));
}

TEST_F(ExampleSourceTest, EveryEpochHasEachOfThemOnceInAnotherOrder) {
  const ExampleSource examples = source();
  const auto samples = examples.samples({.seq_len = 4}, {.shuffle = true, .seed = 3});
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    Batch batch = samples->empty_batch(3);
    samples->read(std::vector<int64_t>{3 * epoch, 3 * epoch + 1, 3 * epoch + 2}, batch);
    std::vector<int64_t> firsts{batch.inputs[0], batch.inputs[4], batch.inputs[8]};
    epochs.push_back(firsts);
    std::ranges::sort(firsts);
    EXPECT_THAT(firsts, ElementsAre(1, 4, 9));
  }
  EXPECT_TRUE(std::ranges::any_of(epochs, [&](auto& e) { return e != epochs[0]; }));
}

TEST_F(ExampleSourceTest, ARangeHasItsOwn) {
  const SampleOrder last{.shuffle = false, .range = {2, 1}};
  EXPECT_THAT(read(source(), 4, last).inputs, ElementsAre(9, 0, 0, 0));
}

// 2 + 1 places in one row, 4 in another.
TEST_F(ExampleSourceTest, RowsMayHoldSeveral) {
  const ExampleSource examples = source();
  const auto samples =
      examples.samples({.seq_len = 4, .packs = true}, {.shuffle = false});
  ASSERT_EQ(samples->num_samples(), 2);
  EXPECT_EQ(examples.num_samples({.seq_len = 4, .packs = true}), 3);
  Batch batch = samples->empty_batch(3);
  EXPECT_THAT(batch.document_ends, ElementsAre(4, 4, 4));
  samples->read(std::vector<int64_t>{0, 1}, batch);
  EXPECT_THAT(batch.inputs, ElementsAre(1, 2, 9, 0, 4, 5, 6, 7, 0, 0, 0, 0));
  EXPECT_THAT(batch.targets, ElementsAre(-1, 3, 10, -1, -1, 6, -1, 8, -1, -1, -1, -1));
  EXPECT_THAT(batch.document_ends, ElementsAre(2, 3, 4, 4, 4, 4, 4, 4, 4));
  const auto last = examples.samples({.seq_len = 4, .packs = true},
                                     {.shuffle = false, .range = {1, 2}});
  EXPECT_EQ(last->num_samples(), 2);
}

TEST_F(ExampleSourceTest, OtherTargetsAndBordersAreOtherData) {
  const uint64_t hash = source().content_hash();
  EXPECT_EQ(source().content_hash(), hash);
  write_targets({0, 0, 1, 0, 0, 1, 0, 1, 0, 1});
  EXPECT_NE(source().content_hash(), hash);
  write_targets({0, 0, 1, 0, 0, 1, 0, 1, 1, 1});
  write_index({0, 4, 8, 10});
  EXPECT_NE(source().content_hash(), hash);
}

TEST_F(ExampleSourceTest, FilesThatDoNotFitTogetherAreErrors) {
  for (const std::vector<int64_t>& begins : std::vector<std::vector<int64_t>>{
           {0, 3, 8, 11}, {1, 3, 8, 10}, {0, 8, 3, 10}, {0, 99, 98, 10}, {0}}) {
    write_index(begins);
    EXPECT_THROW(source(), DataError);
  }
  SetUp();
  write_targets({0, 1});
  EXPECT_THROW(source(), DataError);
}

}  // namespace
}  // namespace zero::data::example_source_test
