#include "launcher/inference/text_reader.h"

#include <gmock/gmock.h>

#include <thread>

#include "engine/comm/thread_ranks.h"

namespace zero::launcher::text_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What readers were told to read; `-1` where a reader begins.
class NotesReader : public TextReader {
 public:
  explicit NotesReader(TokenRow& read) : read_(read) { read_.push_back(-1); }
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override {
    read_.insert(read_.end(), more[0].begin(), more[0].end());
    return {{static_cast<float>(more[0].back())}};
  }
  void read_nothing() override {}

 private:
  TokenRow& read_;
};

TEST(ContinuedReader, ReadsWhatItHasNotReadYet) {
  TokenRow read;
  ContinuedReader reader([&] { return std::make_unique<NotesReader>(read); });
  reader.read({{1, 2}});
  EXPECT_THAT(reader.read({{3}})[0], ElementsAre(3));
  reader.begin_text();
  EXPECT_THAT(reader.read({{1, 2, 3, 4, 5}})[0], ElementsAre(5));
  EXPECT_THAT(read, ElementsAre(-1, 1, 2, 3, 4, 5));
}

TEST(ContinuedReader, BeginsAnewWithAnotherText) {
  const std::vector<TokenRow> others = {{1, 7, 3, 4}, {1, 2}, {1, 2, 3}};
  for (const TokenRow& other : others) {
    TokenRow read;
    ContinuedReader reader([&] { return std::make_unique<NotesReader>(read); });
    reader.read({{1, 2, 3}});
    reader.begin_text();
    reader.read({other});
    TokenRow expected = {-1, 1, 2, 3, -1};
    expected.insert(expected.end(), other.begin(), other.end());
    EXPECT_EQ(read, expected) << "as logits come of what is read, one token at least is";
    reader.begin_text();
    TokenRow longer = other;
    longer.push_back(9);
    reader.read({longer});
    expected.push_back(9);
    EXPECT_EQ(read, expected);
  }
}

TEST(TimedReader, TellsPromptsFromWhatFollows) {
  TokenRow read;
  ReadingTimes times;
  TimedReader reader(std::make_unique<NotesReader>(read), times);
  reader.read({{1}});
  reader.read({{2}});
  reader.read({{3}});
  reader.read({{4, 5, 6}});
  const std::string text = times.describe(int64_t{3} << 30);
  EXPECT_THAT(text, HasSubstr("prompt: 4 tokens, "));
  EXPECT_THAT(text, HasSubstr("; 2 more, "));
  EXPECT_THAT(text, HasSubstr("; 3.0 GiB of memory"));
}

TEST(ReadingTimes, OfRanksBesideEachOtherAreTheTokensOfAllInTheSecondsOfOne) {
  const auto ranks = make_thread_ranks(2);
  std::vector<ReadingTimes> times(2);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      times[r].add(/*are_of_prompts=*/true, 10, 2);
      times[r].add(/*are_of_prompts=*/false, 4, 1);
      times[r].add_up(*ranks[r]);
    });
  threads.clear();
  for (const ReadingTimes& each : times)
    EXPECT_THAT(each.describe(0), HasSubstr("prompt: 20 tokens, 10.0 a second; 8 more, "
                                            "8.0 a second;"));
}

}  // namespace
}  // namespace zero::launcher::text_reader_test
