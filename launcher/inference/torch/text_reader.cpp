#include "launcher/inference/text_reader.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "launcher/model.h"
#include "launcher/run/torch/inference.h"
#include "zero/engine.h"
#include "zero/key_values.h"
#include "zero/layers.h"

namespace zero::launcher {
namespace {

// What the engine calls.
struct ReadLogits {
  ReadingModel& model;
  KeyValues& read;
  at::Tensor forward(const at::Tensor& tokens) { return model.next_logits(tokens, read); }
};

struct WholeLogits {
  LanguageModel& model;
  at::Tensor forward(const at::Tensor& tokens) { return model.next_logits(tokens); }
};

at::Tensor on_host(const at::Tensor& logits) {
  return logits.to(at::kCPU, at::kFloat).contiguous();
}

std::vector<float> to_floats(const at::Tensor& row) {
  return {row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()};
}

class ReadsOnce : public TextReader {
 public:
  ReadsOnce(Model& model, Engine& engine, ReadingModel& reading, const TextsAtOnce& texts,
            BeginPass begin_pass)
      : model_(model),
        engine_(engine),
        reading_(reading),
        tokens_at_once_(std::max<int64_t>(1, kTokensReadAtOnce / texts.rows)),
        begin_pass_(std::move(begin_pass)),
        read_(reading.begin_reading(texts.rows)) {
    read_->expect_at_most(texts.tokens);
  }

  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override {
    const int64_t longest = std::ssize(*std::ranges::max_element(
        more, {}, [](const TokenRow& row) { return row.size(); }));
    std::vector<std::vector<float>> logits(more.size());
    for (int64_t begin = 0; begin < longest; begin += tokens_at_once_)
      read_part(more, begin, std::min(longest - begin, tokens_at_once_), logits);
    return logits;
  }

  void read_nothing() override {
    const auto nothing = reading_.begin_reading(1);
    forward(torch::zeros({1, 1}, torch::kLong), {0}, *nothing);
  }

 private:
  at::Tensor forward(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                     KeyValues& read) {
    const Inference inference(model_);
    const FewRowsScope few_rows;
    read.begin(counts, tokens.size(1));
    ReadLogits callable{reading_, read};
    auto* forward = &callable;
    const at::Tensor logits = engine_.forward(forward, tokens);
    read.end();
    return logits;
  }

  // Tokens [begin, begin + length) of each row, as far as it has them.
  void read_part(const std::vector<TokenRow>& more, int64_t begin, int64_t length,
                 std::vector<std::vector<float>>& logits) {
    const int64_t rows = std::ssize(more);
    const at::Tensor tokens = torch::zeros({rows, length}, torch::kLong);
    auto to = tokens.accessor<int64_t, 2>();
    std::vector<int64_t> counts;
    for (int64_t row = 0; row < rows; ++row) {
      counts.push_back(std::clamp<int64_t>(std::ssize(more[row]) - begin, 0, length));
      for (int64_t i = 0; i < counts[row]; ++i) to[row][i] = more[row][begin + i];
    }
    begin_pass_();
    const at::Tensor found = on_host(forward(tokens, counts, *read_));
    for (int64_t row = 0; row < rows; ++row)
      if (counts[row] > 0 && begin + counts[row] == std::ssize(more[row]))
        logits[row] = to_floats(found[row]);
  }

  Model& model_;
  Engine& engine_;
  ReadingModel& reading_;
  const int64_t tokens_at_once_;
  const BeginPass begin_pass_;
  const std::shared_ptr<KeyValues> read_;
};

class ReadsAll : public TextReader {
 public:
  ReadsAll(LanguageModel& model, Engine& engine, int64_t rows, BeginPass begin_pass)
      : model_(model),
        engine_(engine),
        begin_pass_(std::move(begin_pass)),
        texts_(rows) {}

  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override {
    std::vector<std::vector<float>> logits(more.size());
    for (size_t row = 0; row < more.size(); ++row) {
      if (more[row].empty()) continue;
      texts_[row].insert(texts_[row].end(), more[row].begin(), more[row].end());
      begin_pass_();
      logits[row] = to_floats(on_host(forward(texts_[row])));
    }
    return logits;
  }

  void read_nothing() override { forward({0}); }

 private:
  at::Tensor forward(const TokenRow& text) {
    const Inference inference(model_);
    WholeLogits callable{model_};
    auto* forward = &callable;
    return engine_.forward(forward, at::tensor(text, at::kLong).unsqueeze(0));
  }

  LanguageModel& model_;
  Engine& engine_;
  const BeginPass begin_pass_;
  std::vector<TokenRow> texts_;
};

}  // namespace

std::unique_ptr<TextReader> make_text_reader(Model& model, Engine& engine,
                                             const TextsAtOnce& texts,
                                             const BeginPass& begin_pass) {
  if (auto* reading = dynamic_cast<ReadingModel*>(&model))
    return std::make_unique<ReadsOnce>(model, engine, *reading, texts, begin_pass);
  return std::make_unique<ReadsAll>(dynamic_cast<LanguageModel&>(model), engine,
                                    texts.rows, begin_pass);
}

}  // namespace zero::launcher
