#include "examples/models/families.h"

#include <torch/torch.h>

namespace zero {
namespace {

class DecoderLanguageModel : public LanguageModel {
 public:
  explicit DecoderLanguageModel(std::shared_ptr<Decoder> decoder)
      : decoder_(std::move(decoder)) {}

  std::shared_ptr<torch::nn::Module> module() override { return decoder_; }
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& targets) override {
    return decoder_->forward(tokens, targets);
  }
  at::Tensor next_logits(const at::Tensor& tokens) override {
    return decoder_->logits_of(decoder_->hidden(tokens).select(1, -1)).to(at::kFloat);
  }

 private:
  std::shared_ptr<Decoder> decoder_;
};

}  // namespace

ModelFamilies example_families() {
  return {gpt2_family(), llama_family(), gptj_family(), gpt_neox_family()};
}

std::unique_ptr<LanguageModel> as_language_model(std::shared_ptr<Decoder> decoder) {
  return std::make_unique<DecoderLanguageModel>(std::move(decoder));
}

}  // namespace zero
