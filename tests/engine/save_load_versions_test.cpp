// Checkpoints of older versions of the format, as the programs of their time wrote them
// (tests/checkpoint/version_1), are loaded with every bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/engine/training.h"
#include "zero/engine.h"
#include "zero/save_load.h"

namespace zero::testing::save_load_versions_test {
namespace {

constexpr char kVersion1[] =
    ZERO_SOURCE_DIR "/tests/checkpoint/version_1/step_000000000003";

// A weight of two names that two ranks cut in the middle, a frozen bias, buffers.
struct OldModel : torch::nn::Module {
  OldModel() {
    linear = register_module("linear", torch::nn::Linear(10, 25));
    linear->bias.requires_grad_(false);
    tied = register_parameter("tied", linear->weight);
    norm = register_module("norm", torch::nn::BatchNorm1d(10));
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::matmul(linear(norm(x)), tied).pow(2).sum();
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor tied;
};

// The i-th value of a tensor of the stored checkpoint.
float stored_value(const std::string& kind, const std::string& fqn, int64_t i) {
  return static_cast<float>(i + 1) / static_cast<float>(fqn.size() + 7 * kind.size());
}

void for_each_value(Engine& engine, const std::function<void(float&, float)>& visit) {
  const auto visit_all = [&](const std::string& kind, const std::string& fqn,
                             int64_t begin, std::span<float> values) {
    for (size_t i = 0; i < values.size(); ++i)
      visit(values[i], stored_value(kind, fqn, begin + static_cast<int64_t>(i)));
  };
  for (const ShardView& view : engine.shards()) {
    visit_all("params", view.fqn, view.begin, view.master.span());
    for (const auto& [name, values] : view.state)
      visit_all(name, view.fqn, view.begin, values.span());
  }
  for (const BufferView& view : engine.buffers()) {
    if (view.dtype != DType::kFp32) continue;
    const at::Tensor value = engine.averaged_buffer(view.fqn);
    visit_all("buffers", view.fqn, 0,
              {value.data_ptr<float>(), static_cast<size_t>(value.numel())});
  }
}

void on_old_model(int ranks,
                  const std::function<void(Engine&, std::shared_ptr<OldModel>&)>& body) {
  on_ranks(ranks, [&](std::unique_ptr<Ranks> of_rank) {
    Options options;
    options.device = DeviceChoice::kCpu;
    auto model = std::make_shared<OldModel>();
    Engine engine(model, options, std::move(of_rank));
    body(engine, model);
  });
}

TEST(SaveLoadVersions, Version1ResumesWithTheSameBitsOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    on_old_model(ranks, [&](Engine& engine, std::shared_ptr<OldModel>& model) {
      const SavedState state = load_checkpoint(engine, kVersion1);
      EXPECT_EQ(state.step, 3);
      EXPECT_EQ(state.config, R"({"dim":10})");
      EXPECT_EQ(state.position, R"({"batch":7})");
      EXPECT_EQ(state.user.at("notes"), (std::vector<char>{'o', 'l', 'd'}));
      EXPECT_EQ(engine.num_steps(), 3);
      EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), 3);
      int num_values = 0;
      for_each_value(engine, [&](float& found, float stored) {
        ++num_values;
        EXPECT_EQ(found, stored);
      });
      EXPECT_GT(num_values, 0);
      engine.backward(engine.forward(model, torch::ones({4, 10})), 4);
      EXPECT_EQ(engine.step().step, 4);
    });
  }
}

}  // namespace
}  // namespace zero::testing::save_load_versions_test
