// Attention and feed-forward as units: the same names, numbers and checkpoints as layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/unit/model_scan.h"
#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/engine/training.h"
#include "tests/examples/references.h"
#include "tests/examples/tiny_models.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::sublayers_test {
namespace {

using nlohmann::json;
using testing::Trained;

json config_of(const std::string& name) {
  if (name != "gpt_neox_in_turn") return kTiny.at(name);
  return with(kTiny.at("gpt_neox"), {{"use_parallel_residual", false}});
}

class Sublayers : public ::testing::TestWithParam<std::string> {
 protected:
  Sublayers() {
    options_.init = family_.init_rules(shape("layer"));
    options_.schedule.lr = 1e-2;
    options_.adam_threads = 1;
    options_.device = DeviceChoice::kCpu;
    options_.nominal_targets = static_cast<double>(work_.rows * work_.seq_len);
  }
  ~Sublayers() override { std::filesystem::remove_all(run_); }

  ModelShape shape(const char* units) const {
    launcher::Settings settings;
    settings.units = units;
    return launcher::shape_of(family_, launcher::complete_config(family_, config_),
                              settings);
  }
  std::shared_ptr<Decoder> deferred(const char* units) const {
    const DeferredInit guard;
    return std::dynamic_pointer_cast<Decoder>(family_.make(shape(units))->module());
  }

  using Body = std::function<void(Engine&, std::shared_ptr<Decoder>&)>;
  void each_rank(const char* units, int ranks, const Body& body) const {
    testing::on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Options options = options_;
      options.micro_batches_per_rank =
          options.accumulate == Accumulate::kUnit ? 1 : kMicroBatches / ranks;
      auto model = deferred(units);
      Engine engine(model, options, std::move(comm));
      body(engine, model);
    });
  }
  // Micro-batches are dealt out to the ranks, or are rows of one.
  void steps(Engine& engine, std::shared_ptr<Decoder>& model, int begin, int end,
             Trained& run) const {
    const bool is_unit_major = options_.accumulate == Accumulate::kUnit;
    for (int step = begin; step < end; ++step) {
      testing::Work work = work_;
      if (is_unit_major) work.rows *= kMicroBatches / engine.size();
      const int count = is_unit_major ? engine.size() : kMicroBatches;
      for (int m = engine.rank(); m < count; m += engine.size()) {
        const auto [tokens, targets] = testing::batch_of(work, kVocab, step, m);
        engine.backward(engine.forward(model, tokens, targets), targets.numel());
      }
      const StepReport report = engine.step();
      if (engine.rank() != 0) continue;
      run.losses.push_back(report.loss);
      run.norms.push_back(report.grad_norm);
    }
  }
  Trained train(const char* units, int ranks) const {
    Trained run;
    each_rank(units, ranks, [&](Engine& engine, std::shared_ptr<Decoder>& model) {
      testing::expect_planned_bytes(engine);
      steps(engine, model, 0, 2, run);
      testing::collect_shards(engine, run);
    });
    return run;
  }
  void expect_the_same(const std::string& how) const {
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(how + std::to_string(ranks));
      testing::expect_same(train("sublayer", ranks), train("layer", ranks));
    }
  }

  static constexpr int64_t kVocab = 64;
  static constexpr int kMicroBatches = 4;
  const json config_ = config_of(GetParam());
  const ModelFamily family_ = family_of(config_);
  const testing::Work work_{.rows = 2, .seq_len = 6};
  Options options_;
  const std::string run_ = ::testing::TempDir() + "sublayers_" + std::to_string(getpid());
};

INSTANTIATE_TEST_SUITE_P(Types, Sublayers,
                         ::testing::Values("gpt2", "gptj", "gpt_neox", "gpt_neox_in_turn",
                                           "llama", "mistral", "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST_P(Sublayers, NamesAreThoseOfLayers) {
  const auto layers = deferred("layer"), halves = deferred("sublayer");
  EXPECT_EQ(halves->named_parameters().keys(), layers->named_parameters().keys());
  EXPECT_EQ(halves->named_buffers().keys(), layers->named_buffers().keys());
}

TEST_P(Sublayers, AreUnitsWithTheirNorms) {
  const std::string attention = family_.name == "llama" ? "*.self_attn" : "*.att*";
  options_.unit_options = {{"*.mlp", {}, false}, {attention, DType::kFp32}};
  each_rank("sublayer", 2, [](Engine& engine, auto&) {
    EXPECT_EQ(engine.num_units(), 5) << "root, and two of each layer";
  });
  EXPECT_THROW(each_rank("layer", 1, [](Engine&, auto&) {}), Error);
  for (const ParamDescription& param : scan_model(*deferred("sublayer")).params) {
    const bool is_of_layer = param.fqn.find(".0.") != param.fqn.npos;
    EXPECT_TRUE(!is_of_layer || param.units.at(0) != 0) << param.fqn;
  }
}

TEST_P(Sublayers, NumbersAreThoseOfLayers) {
  expect_the_same("recomputed on ");
  options_.recompute = Recompute::kNone;
  expect_the_same("kept on ");
  options_.recompute = {.every = 2};
  options_.deterministic = true;
  expect_the_same("deterministic on ");
}

TEST_P(Sublayers, NumbersAreThoseOfLayersInBf16) {
  options_.dtype = options_.reduce_dtype = options_.grad_dtype = DType::kBf16;
  options_.prefetch = 3;
  expect_the_same("bf16 on ");
}

TEST_P(Sublayers, NumbersAreThoseOfLayersInAWholeBatchPerUnit) {
  options_.accumulate = Accumulate::kUnit;
  options_.micro_batch = 2;
  expect_the_same("unit by unit on ");
}

TEST_P(Sublayers, ResumeWhatLayersHaveSavedAndTheOtherWay) {
  options_.deterministic = true;
  const Trained unbroken = train("layer", 1);
  for (const auto& [first, then] :
       {std::pair("layer", "sublayer"), {"sublayer", "layer"}}) {
    std::filesystem::remove_all(run_);
    Trained run;
    std::string path;
    each_rank(first, 2, [&](Engine& engine, std::shared_ptr<Decoder>& model) {
      steps(engine, model, 0, 1, run);
      SavedState state;
      state.step = engine.num_steps();
      const std::string saved = save_checkpoint(engine, run_, state);
      if (engine.rank() == 0) path = saved;
    });
    each_rank(then, 1, [&](Engine& engine, std::shared_ptr<Decoder>& model) {
      load_checkpoint(engine, path);
      steps(engine, model, 1, 2, run);
      testing::collect_shards(engine, run);
    });
    testing::expect_same(run, unbroken);
  }
}

TEST_P(Sublayers, NeedSmallerRings) {
  const auto ring = [&](const char* units) {
    int64_t bytes = 0;
    for (const MemoryEntry& entry : plan(*deferred(units), options_, 2))
      if (entry.owner.ends_with("ring")) bytes += entry.bytes;
    return bytes;
  };
  EXPECT_LT(ring("sublayer"), 0.9 * static_cast<double>(ring("layer")));
}

}  // namespace
}  // namespace zero::sublayers_test
