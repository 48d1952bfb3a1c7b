#include "launcher/data/sampler.h"

#include <algorithm>
#include <map>
#include <thread>

#include "tests/launcher/data/data_files.h"

namespace zero::data::sampler_test {
namespace {

using Tokens = std::vector<int64_t>;

class SamplerTest : public DataFiles {
 protected:
  // A file whose token at position p is p.
  TokenSource counting(int64_t num_tokens) const {
    std::vector<uint32_t> ids(static_cast<size_t>(num_tokens));
    std::iota(ids.begin(), ids.end(), 0u);
    return TokenSource({write("counting.bin", llama3(ids))});
  }

  static Tokens sample(const Sampler& sampler, int64_t seq_len, int64_t global_index) {
    Tokens tokens(static_cast<size_t>(seq_len + 1));
    sampler.sample(global_index, tokens.data());
    return tokens;
  }
};

TEST_F(SamplerTest, NeighbouringSamplesShareOneToken) {
  const auto source = counting(10);
  const Sampler sampler(source, 3, {.shuffle = false});
  EXPECT_EQ(sampler.num_samples(), 3);
  EXPECT_EQ(sample(sampler, 3, 0), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(sample(sampler, 3, 1), (Tokens{3, 4, 5, 6}));
  EXPECT_EQ(sample(sampler, 3, 2), (Tokens{6, 7, 8, 9}));
}

TEST_F(SamplerTest, UnshuffledEpochsRepeat) {
  const auto source = counting(10);
  const Sampler sampler(source, 3, {.shuffle = false});
  EXPECT_EQ(sample(sampler, 3, 3), sample(sampler, 3, 0));
  EXPECT_EQ(sample(sampler, 3, 3000000000001), sample(sampler, 3, 1));
  EXPECT_EQ(sampler.epoch(2), 0);
  EXPECT_EQ(sampler.epoch(3), 1);
}

TEST_F(SamplerTest, CountsOnlyWholeSamples) {
  for (int64_t num_tokens = 5; num_tokens < 20; ++num_tokens) {
    const auto source = counting(num_tokens);
    const Sampler sampler(source, 4, {.shuffle = false});
    ASSERT_EQ(sampler.num_samples(), (num_tokens - 1) / 4);
    const auto last = sample(sampler, 4, sampler.num_samples() - 1);
    ASSERT_LT(last.back(), num_tokens);
    ASSERT_GE(last.back() + 4, num_tokens - 1);
  }
}

TEST_F(SamplerTest, CrossesTheBordersOfFiles) {
  write("c/1", "ab");
  write("c/2", "cd");
  const TokenSource source({path("c")});
  const Sampler sampler(source, 4, {.shuffle = false});
  EXPECT_EQ(sample(sampler, 4, 0), (Tokens{'a', 'b', 256, 'c', 'd'}));
}

TEST_F(SamplerTest, AShuffledEpochUsesEverySampleOnce) {
  const auto source = counting(1001);
  const Sampler sampler(source, 5, {.shuffle = true, .seed = 3});
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int> uses(200);
    for (int64_t i = 0; i < 200; ++i) {
      ++uses[static_cast<size_t>(sample(sampler, 5, epoch * 200 + i).front() / 5)];
    }
    EXPECT_THAT(uses, ::testing::Each(1)) << "epoch " << epoch;
  }
}

TEST_F(SamplerTest, OrderChangesWithEpochAndSeed) {
  const auto source = counting(1001);
  const auto order = [&](uint64_t seed, int64_t epoch) {
    const Sampler sampler(source, 5, {.shuffle = true, .seed = seed});
    Tokens numbers;
    for (int64_t i = 0; i < 200; ++i)
      numbers.push_back(sampler.sample_number(epoch * 200 + i));
    return numbers;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_FALSE(std::ranges::is_sorted(order(1, 0)));
}

// Steps of a global batch, dealt to ranks as micro-batches: whatever the split, also when
// it changes on the way, two epochs use every sample twice, in the same steps.
TEST_F(SamplerTest, EverySampleOnceForAnyNumberOfRanks) {
  constexpr int64_t kBatch = 12, kSteps = 2 * 240 / kBatch;
  const auto source = counting(241);
  const Sampler sampler(source, 1, {.shuffle = true, .seed = 8});
  const auto samples_of_steps = [&](int64_t ranks_before, int64_t ranks_after) {
    std::vector<Tokens> steps;
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t num_ranks = step < kSteps / 3 ? ranks_before : ranks_after;
      Tokens numbers;
      for (int64_t rank = 0; rank < num_ranks; ++rank) {
        for (int64_t i = rank; i < kBatch; i += num_ranks) {
          numbers.push_back(sample(sampler, 1, step * kBatch + i).front());
        }
      }
      std::ranges::sort(numbers);
      steps.push_back(numbers);
    }
    return steps;
  };
  const auto one_rank = samples_of_steps(1, 1);
  std::map<int64_t, int> uses;
  for (const auto& step : one_rank) {
    for (int64_t number : step) ++uses[number];
  }
  EXPECT_EQ(uses.size(), 240u);
  for (const auto& [number, count] : uses) EXPECT_EQ(count, 2) << "sample " << number;
  EXPECT_EQ(samples_of_steps(4, 4), one_rank);
  EXPECT_EQ(samples_of_steps(3, 6), one_rank);
}

TEST_F(SamplerTest, ASplitHoldsOutTheEnd) {
  const auto held_out = [](int64_t num_samples, double fraction) {
    const Split split = split_samples(num_samples, fraction);
    EXPECT_EQ(split.trained.first, 0);
    EXPECT_EQ(split.trained.count + split.held_out.count, num_samples);
    EXPECT_EQ(split.held_out.first, split.held_out.count > 0 ? split.trained.count : 0);
    return split.held_out.count;
  };
  EXPECT_EQ(held_out(1000, 0.02), 20);
  EXPECT_EQ(held_out(1000, 0), 0);
  EXPECT_EQ(held_out(99, 0.02), 0);
  EXPECT_EQ(held_out(100, 0.02), 2);
  EXPECT_EQ(held_out(100, 0.001), 1);
  EXPECT_EQ(held_out(100, 0.999), 99);
  EXPECT_EQ(held_out(int64_t{1} << 40, 0.02), 1000);
}

// Each sample is trained on or held out, through two epochs and whoever deals them out.
TEST_F(SamplerTest, NoTrainedSampleIsHeldOut) {
  const auto source = counting(241);
  const Split split = split_samples(count_samples(source, 2), 0.1);
  ASSERT_EQ(split.held_out.count, 12);
  const Sampler trained(source, 2, {.seed = 8, .range = split.trained});
  const Sampler held_out(source, 2, {.shuffle = false, .range = split.held_out});
  std::map<int64_t, int> uses;
  for (int64_t i = 0; i < 2 * split.trained.count; ++i)
    ++uses[sample(trained, 2, i).front()];
  EXPECT_EQ(uses.size(), 108u);
  for (const auto& [first, count] : uses) EXPECT_EQ(count, 2) << "token " << first;
  for (int64_t i = 0; i < split.held_out.count; ++i) {
    EXPECT_FALSE(uses.contains(sample(held_out, 2, i).front()));
    EXPECT_EQ(sample(held_out, 2, i).front(), 216 + 2 * i);
  }
}

TEST_F(SamplerTest, MayBeAskedFromSeveralThreads) {
  const auto source = counting(4001);
  const Sampler sampler(source, 4, {.shuffle = true, .seed = 1});
  std::vector<Tokens> found(1000);
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (int64_t i = first; i < 1000; i += 4) {
        found[static_cast<size_t>(i)] = sample(sampler, 4, i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(found[static_cast<size_t>(i)], sample(sampler, 4, i));
  }
}

TEST_F(SamplerTest, OneSampleIsEnough) {
  const auto source = counting(9);
  const Sampler sampler(source, 8, {.shuffle = true, .seed = 5});
  EXPECT_EQ(sampler.num_samples(), 1);
  EXPECT_EQ(sample(sampler, 8, 41), (Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(SamplerTest, RefusesDataShorterThanOneSample) {
  const auto source = counting(8);
  expect_error([&] { Sampler(source, 8, {}); },
               {"8 tokens", "shorter than one sample of 8 inputs and a target",
                path("counting.bin"), "--seq-len 7 at most"});
  const auto alone = counting(1);
  try {
    Sampler(alone, 8, {});
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_EQ(error.cure(), "more data there");
  }
  write("c/1", "a");
  write("c/2", "b");
  const TokenSource folder({path("c")});
  expect_error([&] { Sampler(folder, 1024, {}); }, {path("c/1") + " and 1 more"});
  expect_error([&] { Sampler(folder, 0, {}); }, {"0 tokens", "--seq-len to at least 1"});
}

}  // namespace
}  // namespace zero::data::sampler_test
