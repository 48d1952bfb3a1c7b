#include "launcher/inference/many_texts.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "engine/comm/thread_ranks.h"
#include "zero/ranks.h"

namespace zero::launcher::many_texts_test {
namespace {

using ::testing::ElementsAre;

TEST(ManyTexts, BatchesAreOfLikeLengthsLongestFirst) {
  EXPECT_THAT(batches_of({3, 9, 3, 7, 1}, 2),
              ElementsAre(ElementsAre(1, 3), ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_TRUE(batches_of({}, 2).empty());
}

// A pass needs every rank, as a gather of weights does: who comes alone waits for ever,
// or is told.
class Reader : public TextReader {
 public:
  Reader(Ranks& weights, InStep& in_step) : weights_(weights), in_step_(in_step) {}
  std::vector<std::vector<float>> read(const std::vector<TokenRow>&) override {
    in_step_.begin_pass();
    weights_.barrier("weights");
    return {};
  }
  void read_nothing() override {
    weights_.barrier("weights");
    ++num_empty;
  }
  int num_empty = 0;

 private:
  Ranks& weights_;
  InStep& in_step_;
};

struct Made {
  std::vector<std::string> records;  // as the first rank got them
  std::vector<bool> is_done;         // of each rank
};

// Batches that take as many passes as they have numbers. The last rank wants to stop at
// the pass `stop_at`.
void make_on(int num_ranks, const std::vector<std::vector<size_t>>& batches, Made& made,
             int stop_at = 1000) {
  auto all = make_thread_ranks(num_ranks);
  auto weights = make_thread_ranks(num_ranks);
  std::vector<bool> is_done(num_ranks);
  {
    std::vector<std::jthread> threads;
    std::mutex mutex;
    for (int r = 0; r < num_ranks; ++r) {
      threads.emplace_back([&, r] {
        const bool done =
            make_many({.batches = batches,
                       .reader =
                           [&](int64_t, InStep& in_step) {
                             return std::make_unique<Reader>(*weights[r], in_step);
                           },
                       .make =
                           [&](const std::vector<size_t>& batch, TextReader& reader,
                               const InStep& in_step) {
                             std::vector<std::string> records;
                             for (const size_t text : batch) {
                               if (in_step.is_stopped()) break;
                               reader.read({});
                               records.push_back(std::to_string(text));
                             }
                             return records;
                           },
                       .keep =
                           [&](const std::vector<std::string>& records) {
                             made.records.insert(made.records.end(), records.begin(),
                                                 records.end());
                           },
                       .wants_stop =
                           [&, r, asked = 0]() mutable {
                             return ++asked >= stop_at && r == num_ranks - 1;
                           }},
                      *all[r]);
        const std::lock_guard lock(mutex);
        is_done[r] = done;
      });
    }
  }
  made.is_done = is_done;
}

const std::vector<std::vector<size_t>> kBatches = {{0, 1, 2, 3}, {4}, {5, 6}, {7}, {8}};

TEST(ManyTexts, AreDealtAndRanksWaitInStep) {
  for (const int num_ranks : {1, 2, 3}) {
    Made made;
    make_on(num_ranks, kBatches, made);
    EXPECT_THAT(made.records, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8"));
    EXPECT_EQ(made.is_done, std::vector<bool>(num_ranks, true));
  }
}

TEST(ManyTexts, ARankThatStopsStopsAllBehindOnePass) {
  Made made;
  make_on(2, kBatches, made, 2);
  EXPECT_EQ(made.is_done, std::vector<bool>(2, false));
  EXPECT_THAT(made.records, ElementsAre("0", "1", "4")) << "what was done is kept";
}

}  // namespace
}  // namespace zero::launcher::many_texts_test
