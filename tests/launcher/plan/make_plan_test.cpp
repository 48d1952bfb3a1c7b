// Plans of a model that is there.
#include <gtest/gtest.h>

#include "examples/models/families.h"
#include "launcher/plan/advice.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/kernel_caches.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"

namespace zero::launcher::make_plan_test {
namespace {

// Each prompt has a length of its own.
TEST(MakePlan, CountsMoreKernelsWhereSamplesAreDrawn) {
  if (kernel_cache_bytes(2, true) == 0) GTEST_SKIP() << "nothing is compiled in 16 bits";
  const ModelFamily family = gpt2_family();
  Settings settings;
  settings.dtype = "bf16";
  settings.vocab = 256;
  const ModelShape shape = new_shape(family, settings);
  const auto model = make_deferred(family, shape);
  for (const int64_t every : {0, 10}) {
    settings.sample_every = every;
    EXPECT_EQ(make_plan({settings, shape}, family, *model).kernels,
              kernel_cache_bytes(2, every > 0));
  }
}

// The model of fairseq's tutorial on full sharding, with a head of its own.
TEST(MakePlan, CountsThirteenBillionParametersWithoutMemory) {
  const ModelFamily family = gpt2_family();
  Settings settings;
  settings.layers = 40;
  settings.dim = 5120;
  settings.heads = 40;
  settings.vocab = 50272;
  settings.seq_len = 2050;
  settings.model_config = {"tie_word_embeddings=false"};
  const ModelShape shape = new_shape(family, settings);
  const auto model = make_deferred(family, shape);
  EXPECT_EQ(make_plan({settings, shape}, family, *model).num_parameters, 13'110'865'920);
}

TEST(MakePlan, CountsWhatTheKernelDescribesMemoryBy) {
  const ModelFamily family = gpt2_family();
  const auto plan_of = [&](int64_t vocab) {
    Settings settings;
    settings.vocab = vocab;
    const ModelShape shape = new_shape(family, settings);
    return make_plan({settings, shape}, family, *make_deferred(family, shape));
  };
  const RunPlan small = plan_of(256), large = plan_of(2560);
  EXPECT_GT(large.objects, small.objects);
  EXPECT_EQ(large.objects - small.objects,
            large.engine_host_bytes() / 512 - small.engine_host_bytes() / 512);
}

// The rank's numbers of each token and, with dropout, a byte for each of its layer's
// input; beside what one adapter makes at a time.
TEST(MakePlan, CountsWhatAdaptersKeep) {
  const ModelFamily family = gpt2_family();
  Settings settings;
  settings.vocab = 256;
  settings.recompute = "none";
  const auto activations = [&](const std::string& lora) {
    settings.lora = lora;
    const ModelShape shape = new_shape(family, settings);
    return make_plan({settings, shape}, family, *make_deferred(family, shape)).activations;
  };
  const int64_t rank_8 = activations("r=8,targets=c_fc");
  const ModelShape shape = new_shape(family, settings);
  const int64_t tokens = settings.micro_batch * shape.seq_len;
  EXPECT_EQ(activations("r=72,targets=c_fc") - rank_8,
            tokens * 64 * (4 * shape.layers() + 8));
  EXPECT_EQ(activations("r=8,targets=c_fc,dropout=0.5") - rank_8,
            tokens * shape.dim() * (shape.layers() + 2 * 4));
}

TEST(MakePlan, GathersNothingAheadWhereThatAloneHasNoRoom) {
  const ModelFamily family = gpt2_family();
  Settings settings;
  settings.vocab = 256;
  settings.global_batch = 8;
  const ModelShape shape = new_shape(family, settings);
  const auto model = make_deferred(family, shape);
  const auto plan_of = [&](const std::string& prefetch, int64_t room) {
    settings.prefetch = prefetch;
    return make_plan({settings, shape, 2, 2, room}, family, *model);
  };
  const int64_t usual = plan_of("1", 0).node_bytes(),
                least = plan_of("0", 0).node_bytes();
  ASSERT_LT(least, usual);
  EXPECT_EQ(plan_of("auto", usual).settings.prefetch, "1");
  EXPECT_EQ(plan_of("auto", usual - 1).settings.prefetch, "0");
  EXPECT_EQ(plan_of("auto", usual - 1).node_bytes(), least);
  EXPECT_EQ(plan_of("1", usual - 1).settings.prefetch, "1") << "as it was told";
}

// Each layer of qwen2 may have a type of its own.
TEST(MakePlan, TheLargestModelHasATypeForEachOfItsLayers) {
  const ModelFamily family = llama_family();
  Settings settings;
  settings.preset = "qwen2.5-0.5b";
  settings.layers = 3;
  settings.dim = 64;
  settings.heads = settings.kv_heads = 4;
  settings.vocab = 256;
  settings.seq_len = 16;
  settings.model_config = {
      "use_sliding_window=true", "sliding_window=8",
      R"(layer_types=["full_attention","full_attention","sliding_attention"])"};
  Wish wish{settings, new_shape(family, settings)};
  wish.room = 100 << 20;
  const auto largest = largest_fit(wish, [&](const Wish& each) {
    return make_plan(each, family, *make_deferred(family, each.shape));
  });
  ASSERT_TRUE(largest);
  EXPECT_GT(largest->shape.layers(), 3);
  EXPECT_EQ(std::ssize(largest->shape.config.at("layer_types")), largest->shape.layers());
}

TEST(LargestProduct, IsThatOfTheHostsWidestLayer) {
  const ModelFamily family = gpt2_family();
  Wish wish;
  wish.settings.vocab = 5000;
  wish.settings.micro_batch = 3;
  wish.shape = new_shape(family, wish.settings);
  const Product of_host = largest_product(wish);
  EXPECT_EQ(of_host.rows, 3 * wish.shape.seq_len);
  EXPECT_EQ(of_host.depth, wish.shape.dim());
  EXPECT_EQ(of_host.width, 5000);
  wish.gpu_room = 1;
  EXPECT_EQ(largest_product(wish).rows, 0);
}

}  // namespace
}  // namespace zero::launcher::make_plan_test
