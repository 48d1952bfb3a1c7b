// Adapters: which layers get them, what these compute, and what an engine makes of them.
#include "zero/lora.h"

#include <fstream>
#include <map>
#include <sstream>

#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/linear.h"

namespace zero::testing::lora_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl() {
    up = register_module("up", Linear(4, 6));
    down = register_module("down", Linear(6, 4, /*has_bias=*/false));
  }
  at::Tensor forward(const at::Tensor& x) { return down(torch::tanh(up(x))); }
  Linear up{nullptr}, down{nullptr};
};

struct NetImpl : nn::Module {
  NetImpl() {
    for (auto& block : blocks)
      block =
          register_module("b" + std::to_string(&block - blocks), Unit<BlockImpl>::make());
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({4})));
  }
  at::Tensor forward(const at::Tensor& x) {
    return norm(blocks[1](blocks[0](x))).pow(2).sum();
  }
  Unit<BlockImpl> blocks[2];
  nn::LayerNorm norm{nullptr};
};

std::vector<std::string> trained_of(const nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad()) names.push_back(item.key());
  return names;
}

// Values that differ from 0 for all B.
void fill_factors(nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters())
    if (item.key().ends_with("lora_B.weight"))
      item.value().copy_(values(item.value().sizes().vec(), -0.2, 0.3));
}

TEST(Lora, NamesGlobsAndAllLinearChooseLayers) {
  const auto targets = [](const ModuleNames& names) {
    NetImpl net;
    return add_lora(net, {.targets = names});
  };
  EXPECT_THAT(targets({"all-linear"}),
              ElementsAre("b0.up", "b0.down", "b1.up", "b1.down"));
  EXPECT_THAT(targets({"down"}), ElementsAre("b0.down", "b1.down"));
  EXPECT_THAT(targets({"b1.up"}), ElementsAre("b1.up"));
  EXPECT_THAT(targets({"b0.*"}), ElementsAre("b0.up", "b0.down"));
}

TEST(Lora, FreezesAllButAdaptersAndModulesToSave) {
  NetImpl net;
  add_lora(net, {.targets = {"b0.up"}, .modules_to_save = {"norm"}});
  EXPECT_THAT(trained_of(net), ElementsAre("b0.up.lora_A.weight", "b0.up.lora_B.weight",
                                           "norm.weight", "norm.bias"));
}

// As in peft: what is saved whole has no adapter.
TEST(Lora, GivesNoAdapterToWhatIsSaved) {
  NetImpl net;
  EXPECT_THAT(add_lora(net, {.targets = {"up"}, .modules_to_save = {"b0.up"}}),
              ElementsAre("b1.up"));
  NetImpl other;
  EXPECT_THAT(add_lora(other, {.modules_to_save = {"b0"}}),
              ElementsAre("b1.up", "b1.down"));
  EXPECT_TRUE(other.blocks[0]->up->weight.requires_grad());
  NetImpl none;
  EXPECT_THAT(error_of([&] { add_lora(none, {.modules_to_save = {"b?"}}); }),
              HasSubstr("outside of modules_to_save"));
}

TEST(Lora, StartsAsTheLayerAlone) {
  BlockImpl block;
  const at::Tensor x = values({3, 4}), before = block.up(x);
  add_lora(block, {.r = 3});
  EXPECT_TRUE(block.up(x).equal(before));
  const at::Tensor a = block.up->named_parameters()["lora_A.weight"];
  EXPECT_LE(a.abs().max().item<double>(), 0.5);  // 1 / sqrt(4)
  EXPECT_GT(a.abs().max().item<double>(), 0.25);
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{3, 4}));
}

// scale * B A x is alpha / r of it, by name another one, or alpha / sqrt(r).
TEST(Lora, AddsTheScaledProduct) {
  const auto added = [](const LoraOptions& options) {
    BlockImpl block;
    const at::Tensor x = values({2, 3, 4}), before = block.up(x);
    add_lora(block, options);
    fill_factors(block);
    const auto params = block.up->named_parameters();
    const at::Tensor ba =
        params["lora_B.weight"].matmul(params["lora_A.weight"]).matmul(x.unsqueeze(-1));
    const at::Tensor difference = block.up(x) - before;
    return (difference.flatten().dot(ba.flatten()) / ba.flatten().dot(ba.flatten()))
        .item<double>();
  };
  EXPECT_NEAR(added({.r = 4, .alpha = 6}), 1.5, 1e-5);
  EXPECT_NEAR(added({.r = 4, .alpha = 6, .rslora = true}), 3, 1e-5);
  EXPECT_NEAR(added({.r = 4, .alpha = 6, .ranks = {{"up", 2}}}), 3, 1e-5);
  EXPECT_NEAR(added({.r = 4, .alpha = 6, .alphas = {{"up", 10}}}), 2.5, 1e-5);
}

// The layer's result is rounded once before, and once behind the adapter's part.
TEST(Lora, ComputesInFp32) {
  BlockImpl block;
  block.to(at::kBFloat16);
  const at::Tensor x = values({3, 4}).to(at::kBFloat16), before = block.up(x);
  add_lora(block, {.r = 2, .alpha = 2});
  fill_factors(block);
  const auto params = block.up->named_parameters();
  EXPECT_EQ(params["lora_A.weight"].scalar_type(), at::kFloat);
  const at::Tensor part = x.to(at::kFloat)
                              .matmul(params["lora_A.weight"].t())
                              .matmul(params["lora_B.weight"].t());
  EXPECT_TRUE(block.up(x).equal((before.to(at::kFloat) + part).to(at::kBFloat16)));
}

TEST(Lora, DropsInputsOfAdaptersInTrainingAlone) {
  BlockImpl block;
  block.eval();
  add_lora(block, {.dropout = 0.5});
  fill_factors(block);
  const at::Tensor x = values({64, 4});
  EXPECT_TRUE(block.up(x).equal(block.up(x)));
  block.train();
  EXPECT_FALSE(block.up(x).equal(block.up(x)));
}

struct PlainImpl : nn::Module {
  PlainImpl() {
    first = register_module("first", nn::Linear(4, 4));
    second = register_module("second", nn::Linear(4, 4));
    mine = register_module("mine", Linear(4, 4));
  }
  nn::Linear first{nullptr}, second{nullptr};
  Linear mine{nullptr};
};

TEST(Lora, RefusesBeforeAnythingChanged) {
  const auto refused = [](const LoraOptions& options) {
    PlainImpl model;
    const std::string error = error_of([&] { add_lora(model, options); });
    EXPECT_EQ(trained_of(model).size(), 6u) << error;
    EXPECT_FALSE(model.mine->has_lora());
    return error;
  };
  EXPECT_THAT(refused({}), AllOf(HasSubstr("first, second"), HasSubstr("zero::Linear")));
  EXPECT_THAT(refused({.targets = {"second", "mine"}}),
              AllOf(HasSubstr("where: second"), HasSubstr("torch::nn::Linear")));
  EXPECT_THAT(refused({.targets = {"mine", "none"}}), HasSubstr("'none' matches no"));
  EXPECT_THAT(refused({.targets = {"mine"}, .modules_to_save = {"head"}}),
              HasSubstr("'head' matches no module"));
  EXPECT_THAT(refused({.targets = {"mine"}, .ranks = {{"first", 2}}}),
              HasSubstr("'first' matches no target"));
  EXPECT_THAT(refused({.targets = {"mine"}, .alphas = {{"mine", 2}, {"m*", 3}}}),
              HasSubstr("different values"));
  EXPECT_THAT(refused({.r = 0, .targets = {"mine"}}), HasSubstr("rank"));
  EXPECT_THAT(refused({.alpha = 0, .targets = {"mine"}}), HasSubstr("alpha"));
  EXPECT_THAT(refused({.dropout = 1, .targets = {"mine"}}), HasSubstr("dropout"));
  EXPECT_THAT(refused({.targets = {}}), HasSubstr("targets"));
}

TEST(Lora, RefusesASecondTime) {
  NetImpl net;
  add_lora(net, {.targets = {"up"}});
  EXPECT_THAT(error_of([&] { add_lora(net, {.targets = {"down"}}); }),
              HasSubstr("adapters already"));
}

TEST(Lora, ALayerIsClonedBeforeItHasOne) {
  Linear layer(3, 2);
  layer->weight.set_requires_grad(false);
  layer->eval();
  const auto copy = std::dynamic_pointer_cast<LinearImpl>(layer->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_FALSE(copy->is_training());
  EXPECT_TRUE(copy->weight.equal(layer->weight));
  EXPECT_NE(copy->weight.data_ptr(), layer->weight.data_ptr());
  EXPECT_FALSE(copy->weight.requires_grad());
  nn::Sequential held(layer);
  add_lora(*held, {});
  EXPECT_THAT(error_of([&] { layer->clone(); }), HasSubstr("before add_lora()"));
}

// ---- under an engine

struct LoraRun {
  Trained before, after;
};

LoraRun trained_on(int ranks, DType dtype, double dropout,
                   DType frozen_dtype = DType::kFp32, const Trained* start = nullptr,
                   bool streams = false) {
  LoraRun run;
  on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
    std::shared_ptr<NetImpl> net;
    {
      const DeferredInit deferred;
      net = std::make_shared<NetImpl>();
      add_lora(*net,
               {.r = 2, .alpha = 4, .dropout = dropout, .targets = {"up", "b1.down"}});
    }
    Options options;
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.schedule.lr = 0.1;
    options.init = {{"*", normal(0, 0.5)}};
    options.dtype = dtype;
    options.frozen_dtype = frozen_dtype;
    options.stream_always = streams;
    options.deterministic = true;
    Engine engine(net, options, std::move(comm));
    expect_planned_bytes(engine);
    for (const ShardView& shard : start ? engine.shards() : std::vector<ShardView>())
      engine.set_full_parameter(
          shard.fqn, torch::tensor(start->params.at(shard.fqn)).view(shard.shape));
    collect_shards(engine, run.before);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor loss = engine.forward(net, values({4, 4}, -1 - 0.1 * step, 1));
      engine.backward(loss, 1);
      engine.step();
    }
    collect_shards(engine, run.after);
  });
  return run;
}

TEST(LoraEngine, StartsAdaptersAsLoraDoesWhateverTheRulesSay) {
  const LoraRun run = trained_on(1, DType::kFp32, 0);
  for (const auto& [fqn, before] : run.before.params) {
    if (fqn.ends_with("lora_B.weight")) {
      EXPECT_THAT(before, ::testing::Each(0.0f)) << fqn;
    }
    if (fqn.ends_with("lora_A.weight")) {
      const float bound = fqn.starts_with("b1.down") ? 1 / std::sqrt(6.0f) : 0.5f;
      for (const float value : before) EXPECT_LE(std::abs(value), bound) << fqn;
    }
  }
  EXPECT_EQ(run.before.params.at("b0.up.lora_A.weight").size(), 8u);
}

TEST(LoraEngine, TrainsAdaptersAloneAndAllRanksAlike) {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const LoraRun one = trained_on(1, dtype, 0.25), two = trained_on(2, dtype, 0.25);
    EXPECT_EQ(one.before.params, two.before.params);
    for (const auto& [fqn, before] : one.before.params) {
      const bool is_factor = fqn.find(".lora_") != fqn.npos;
      EXPECT_EQ(one.after.params.at(fqn) != before, is_factor) << fqn;
    }
  }
}

// The weights that units read are the same.
TEST(LoraEngine, FrozenWeightsIn2BytesTrainTheSameAdapters) {
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    for (const int ranks : {1, 2}) {
      const double dropout = ranks == 1 ? 0.25 : 0;  // threads share random numbers
      const LoraRun whole = trained_on(ranks, dtype, dropout);
      const LoraRun rounded = trained_on(ranks, dtype, dropout, dtype);
      for (const auto& [fqn, after] : whole.after.params) {
        if (fqn.find(".lora_") != fqn.npos) {
          EXPECT_EQ(rounded.after.params.at(fqn), after) << fqn;
          continue;
        }
        for (size_t i = 0; i < after.size(); ++i) {
          const float as_read = dtype == DType::kBf16
                                    ? bf16_to_float(float_to_bf16(after[i]))
                                    : fp16_to_float(float_to_fp16(after[i]));
          EXPECT_EQ(rounded.after.params.at(fqn)[i], as_read) << fqn;
        }
      }
    }
  }
}

// Masters that hold what the narrower type does give the same bits. Adapters are not
// rounded.
TEST(LoraEngine, FrozenWeightsOfAnotherTypeAreDecodedWithoutLoss) {
  for (const DType kept : {DType::kBf16, DType::kFp16, DType::kInt8}) {
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      if (kept == dtype) continue;
      SCOPED_TRACE(name_of(kept) + std::string(" to ") + name_of(dtype));
      const LoraRun one = trained_on(1, dtype, 0, kept);
      for (const auto& [ranks, streams] : {std::pair(2, false), {2, true}, {4, false}}) {
        const LoraRun many = trained_on(ranks, dtype, 0, kept, nullptr, streams);
        EXPECT_EQ(many.after.params, one.after.params) << ranks << streams;
      }
      const LoraRun whole = trained_on(1, dtype, 0, DType::kFp32, &one.before);
      EXPECT_EQ(whole.after.params, one.after.params);
      const LoraRun unrounded = trained_on(1, dtype, 0);
      for (const auto& [fqn, before] : one.before.params) {
        const bool is_factor = fqn.find(".lora_") != fqn.npos;
        EXPECT_EQ(unrounded.before.params.at(fqn) == before, is_factor) << fqn;
      }
    }
  }
}

TEST(LoraEngine, AdaptersTravelWithTheFrozenWeightsOfTheirUnit) {
  const std::string trace = ::testing::TempDir() + "adapters_travel_";
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    auto net = std::make_shared<NetImpl>();
    add_lora(*net, {.targets = {"up", "b1.down"}});
    Options options;
    options.device = DeviceChoice::kCpu;
    options.stream_always = true;
    options.dtype = DType::kBf16;
    options.trace_comm = trace + std::to_string(comm->rank());
    std::remove(options.trace_comm.c_str());
    Engine engine(net, options, std::move(comm));
    engine.backward(engine.forward(net, values({4, 4})), 1);
    std::ifstream calls(options.trace_comm);
    std::map<std::string, int> num_gathers;  // by tag
    for (std::string line; std::getline(calls, line);) {
      std::istringstream words(line);
      std::string number, operation, tag;
      words >> number >> operation >> tag;
      if (operation == "all_gather" && tag.starts_with('b')) ++num_gathers[tag];
    }
    EXPECT_EQ(num_gathers, (std::map<std::string, int>{{"b0", 1}, {"b1", 1}}));
  });
}

TEST(LoraEngine, StaysInFp32WhereUnitsComputeInBf16) {
  NetImpl net;
  add_lora(net, {.targets = {"up"}});
  Options options;
  options.dtype = DType::kBf16;
  options.device = DeviceChoice::kCpu;
  Engine engine(std::make_shared<NetImpl>(net), options);
  for (const auto& item : net.named_parameters()) {
    const bool is_factor = item.key().find(".lora_") != std::string::npos;
    EXPECT_EQ(item.value().scalar_type() == at::kFloat, is_factor) << item.key();
  }
}

}  // namespace
}  // namespace zero::testing::lora_test
