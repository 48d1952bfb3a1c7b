// A function of one's own for each family, as people write it for models that are built
// without memory: it is not told what the family's rules say.
#include "zero/init_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/language_model.h"
#include "zero/deferred_init.h"
#include "zero/engine.h"

namespace zero::init_functions_test {
namespace {

// Matrices are drawn, biases start at 0, norms at 1; a padding row is 0.
InitDone like_the_original(const InitCall& call) {
  for (auto& own : call.module.named_parameters(/*recurse=*/false)) {
    at::Tensor& value = own.value();
    if (value.dim() > 1)
      torch::nn::init::normal_(value, 0, 0.02);
    else
      own.key() == "bias" ? value.zero_() : value.fill_(1);
  }
  if (auto* embedding = call.module.as<torch::nn::EmbeddingImpl>()) {
    if (embedding->options.padding_idx())
      embedding->weight[*embedding->options.padding_idx()].zero_();
  }
  return InitDone::kAll;
}

class FunctionsFor : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<LanguageModel> model() const {
    const ModelFamilies families = example_families();
    const ModelFamily& family = *launcher::find_family(families, GetParam());
    ModelShape shape = launcher::new_shape(family, {});
    shape.config["vocab_size"] = 257;
    const DeferredInit guard;
    return as_language(family.make(shape));
  }
};

TEST_P(FunctionsFor, InitialiseAFamilyOfWhichNothingIsLeftOut) {
  Options options;
  options.device = DeviceChoice::kCpu;
  options.inference = true;
  options.init_report = true;
  options.param_init = like_the_original;
  bool was_called = false;
  options.post_init = [&](Engine& engine, torch::nn::Module& module) {
    was_called = true;
    for (const auto& item : module.named_parameters()) {
      if (!item.key().ends_with("lm_head.weight")) continue;  // tied in some families
      EXPECT_GT(engine.full_parameter(item.key()).std().item<double>(), 0.01);
    }
  };
  const auto held = model();
  const CheckInitialised check(held->module());
  Engine engine(held->module(), options);
  EXPECT_TRUE(was_called);
  int64_t num_drawn = 0;
  for (const InitEntry& entry : engine.init_report()) {
    SCOPED_TRACE(entry.fqn);
    if (entry.is_buffer) continue;
    EXPECT_THAT(entry.who, ::testing::StartsWith("function of "));
    if (entry.std == 0) continue;
    ++num_drawn;
    EXPECT_NEAR(entry.mean, 0, 0.1 / std::sqrt(static_cast<double>(entry.numel)));
    EXPECT_NEAR(entry.std, 0.02, 0.1 / std::sqrt(static_cast<double>(entry.numel)));
  }
  EXPECT_GT(num_drawn, 10);
}

INSTANTIATE_TEST_SUITE_P(, FunctionsFor,
                         ::testing::Values("gpt2", "llama", "gptj", "gpt_neox"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace zero::init_functions_test
