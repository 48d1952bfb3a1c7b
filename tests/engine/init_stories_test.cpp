// Two ways in which others start large models, lived through from the first error to the
// first steps.
#include <c10/core/Allocator.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "tests/engine/first_values.h"
#include "tests/engine/unit_contract.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::init_stories_test {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::map<std::string, at::Tensor>;

void expect_same_values(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [fqn, value] : expected)
    EXPECT_TRUE(torch::equal(values.at(fqn), value)) << fqn;
}

Values params_of(Engine& engine) {
  Values all;
  for (const ShardView& view : engine.shards())
    all[view.fqn] = engine.full_parameter(view.fqn);
  return all;
}

void set_params(nn::Module& model, const Values& values) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) item.value().copy_(values.at(item.key()));
}

class Story : public ::testing::TestWithParam<int> {
 protected:
  Story() {
    fs::remove_all(run_);
    options_.init_report = true;
    options_.seed = 5;
    options_.optimizer.weight_decay = 0;
    options_.schedule.lr = 1e-3;
  }
  ~Story() override { fs::remove_all(run_); }
  int ranks() const { return GetParam(); }
  void each_rank(const std::function<void(std::unique_ptr<Ranks>)>& body) const {
    on_ranks(ranks(), body);
  }

  Options options_ = quiet_options();
  const std::string run_ = ::testing::TempDir() + "story_" + std::to_string(getpid());
};

// --- Pretraining from a model that is nowhere (fms-fsdp's write-up on the meta device).
//
// Its modules reset all that is below them, and so a child's turn, which comes later,
// silently undoes what the parent meant.

constexpr int64_t kDim = 64, kHidden = 128, kWords = 200, kLength = 6;

nn::Linear linear(int64_t in, int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

struct AttentionImpl : nn::Module {
  AttentionImpl() {
    query = register_module("query", linear(kDim, kDim));
    key = register_module("key", linear(kDim, kDim));
    value = register_module("value", linear(kDim, kDim));
    dense = register_module("dense", linear(kDim, kDim));
    scale = register_parameter("scale", torch::empty({1}));
  }
  void reset_parameters() {
    nn::init::constant_(scale, 0.5);
    for (nn::Linear* layer : {&query, &key, &value, &dense})
      nn::init::normal_((*layer)->weight, 0, 0.02);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& table) {
    const at::Tensor q = query(x) * table * scale, k = key(x) * table;
    return dense(torch::softmax(q.matmul(k.transpose(1, 2)), -1).matmul(value(x)));
  }
  nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, dense{nullptr};
  at::Tensor scale;
};

struct GluImpl : nn::Module {
  GluImpl() {
    up = register_module("up", linear(kDim, kHidden));
    gate = register_module("gate", linear(kDim, kHidden));
    down = register_module("down", linear(kHidden, kDim));
  }
  void reset_parameters() {
    for (nn::Linear* layer : {&up, &gate, &down})
      nn::init::normal_((*layer)->weight, 0, 0.03);
  }
  at::Tensor forward(const at::Tensor& x) { return down(up(x) * torch::silu(gate(x))); }
  nn::Linear up{nullptr}, gate{nullptr}, down{nullptr};
};

struct NormImpl : nn::Module {
  NormImpl() { weight = register_parameter("weight", torch::empty({kDim})); }
  void reset_parameters() { nn::init::ones_(weight); }
  at::Tensor forward(const at::Tensor& x) {
    return x * torch::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + 1e-5) * weight;
  }
  at::Tensor weight;
};

struct WordsImpl : nn::Module {
  WordsImpl() {
    embedding = register_module("embedding", nn::Embedding(kWords, kDim));
    head = register_module("head", linear(kDim, kWords));
  }
  void reset_parameters() {
    nn::init::normal_(embedding->weight, 0, 0.04);
    nn::init::normal_(head->weight, 0, 0.01);
  }
  nn::Embedding embedding{nullptr};
  nn::Linear head{nullptr};
};

// Its table is computed when the model is where it will run.
struct RotaryImpl : nn::Module {
  RotaryImpl() { table = register_buffer("table", torch::zeros({kLength, kDim})); }
  static at::Tensor computed() {
    return torch::outer(torch::arange(kLength).to(at::kFloat),
                        torch::pow(1e4, torch::arange(kDim) / -double{kDim}))
        .cos();
  }
  at::Tensor table;
};

struct BlockImpl : nn::Module {
  BlockImpl() {
    norm = register_module("norm", std::make_shared<NormImpl>());
    attention = register_module("attention", std::make_shared<AttentionImpl>());
    glu = register_module("glu", std::make_shared<GluImpl>());
    glu_norm = register_module("glu_norm", std::make_shared<NormImpl>());
  }
  void reset_parameters() {
    norm->reset_parameters();
    attention->reset_parameters();
    glu_norm->reset_parameters();
    glu->reset_parameters();
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& table) {
    const at::Tensor y = x + attention->forward(norm->forward(x), table);
    return y + glu->forward(glu_norm->forward(y));
  }
  std::shared_ptr<NormImpl> norm, glu_norm;
  std::shared_ptr<AttentionImpl> attention;
  std::shared_ptr<GluImpl> glu;
};

struct LlamaImpl : nn::Module {
  LlamaImpl() {
    words = register_module("words", std::make_shared<WordsImpl>());
    rotary = register_module("rotary", std::make_shared<RotaryImpl>());
    for (int i = 0; i < 4; ++i) blocks->push_back(Unit<BlockImpl>::make());
    register_module("blocks", blocks);
    norm = register_module("norm", std::make_shared<NormImpl>());
  }
  void reset_parameters() {
    words->reset_parameters();
    for (auto& block : *blocks) block.value()->reset_parameters();
    norm->reset_parameters();
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = words->embedding(tokens);
    for (auto& block : *blocks) x = block.value()(x, rotary->table);
    const at::Tensor logits = words->head(norm->forward(x)).view({-1, kWords});
    return nn::functional::cross_entropy(
        logits, tokens.flatten(),
        nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  std::shared_ptr<WordsImpl> words;
  std::shared_ptr<RotaryImpl> rotary;
  UnitList<BlockImpl> blocks{std::make_shared<UnitListImpl<BlockImpl>>()};
  std::shared_ptr<NormImpl> norm;
};

// Of tensors that this thread holds, the most bytes at a time since it was made.
class HeldBytes {
 public:
  int64_t most() const { return count_->most; }

 private:
  struct Count : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      held += bytes;
      most = std::max(most, held);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t held = 0, most = 0;
  };
  const std::shared_ptr<Count> count_ = std::make_shared<Count>();
  const c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, count_};
};

int64_t bytes_of(const nn::Module& module) {
  int64_t bytes = 0;
  for (const at::Tensor& param : module.parameters())
    bytes += static_cast<int64_t>(param.nbytes());
  return bytes;
}

class FromNothing : public Story {
 protected:
  using Model = std::shared_ptr<LlamaImpl>;

  // A type whose modules reset themselves, counted.
  template <class Module>
  InitType resets() {
    return init_type<Module>([this](Module& module, const InitCall& call) {
      ++num_calls_[call.fqn];  // one rank at a time has torch's generator
      module.reset_parameters();
    });
  }
  Options with(std::vector<InitType> types) const {
    Options options = options_;
    options.init_types = std::move(types);
    return options;
  }
  // What each rank is told.
  void expect_refused(const Options& options,
                      const ::testing::Matcher<std::string>& text) const {
    each_rank([&](std::unique_ptr<Ranks> comm) {
      EXPECT_THAT(
          error_of([&] { Engine(deferred<LlamaImpl>(), options, std::move(comm)); }),
          text);
    });
    EXPECT_TRUE(num_calls_.empty());
  }
  std::vector<InitType> exclusive_types() {
    return {resets<AttentionImpl>(), resets<WordsImpl>(), resets<GluImpl>(),
            resets<NormImpl>(),
            init_type<RotaryImpl>([](RotaryImpl&, const InitCall&) {})};
  }
  static at::Tensor tokens() { return torch::arange(2 * kLength).view({2, kLength}); }
  // What `make` becomes on ranks, after `body`.
  Values params(
      const Options& options, const std::function<Model(int rank)>& make,
      const std::function<void(Engine&, Model&)>& body = [](Engine&, Model&) {}) const {
    Values all;
    each_rank([&](std::unique_ptr<Ranks> comm) {
      Model model = make(comm->rank());
      Engine engine(model, options, std::move(comm));
      body(engine, model);
      const Values own = params_of(engine);
      if (engine.rank() == 0) all = own;
    });
    return all;
  }
  static Model nowhere(int = 0) { return deferred<LlamaImpl>(); }

  // The chapters.
  void resets_of_all_below_are_refused();
  void lists_that_are_wrong_run_nothing();
  void each_module_is_reset_once();
  void no_rank_holds_more_than_a_module();
  void a_full_copy_gives_the_same();
  void a_table_is_computed_after_sharding();
  void a_checkpoint_makes_it_unnecessary();

  std::map<std::string, int> num_calls_;
  Values first_;  // values of the right list
};

INSTANTIATE_TEST_SUITE_P(Ranks, FromNothing, ::testing::Values(1, 2, 3, 4));

TEST_P(FromNothing, AModelIsPretrained) {
  resets_of_all_below_are_refused();
  lists_that_are_wrong_run_nothing();
  each_module_is_reset_once();
  no_rank_holds_more_than_a_module();
  a_full_copy_gives_the_same();
  a_table_is_computed_after_sharding();
  a_checkpoint_makes_it_unnecessary();
}

// The model's own resets, as they are, for whatever module has one.
InitDone reset(nn::Module& module) {
  if (auto* words = dynamic_cast<WordsImpl*>(&module)) words->reset_parameters();
  if (auto* block = dynamic_cast<BlockImpl*>(&module)) block->reset_parameters();
  if (auto* norm = dynamic_cast<NormImpl*>(&module)) norm->reset_parameters();
  if (auto* one = dynamic_cast<AttentionImpl*>(&module)) one->reset_parameters();
  return InitDone::kAll;
}

void FromNothing::resets_of_all_below_are_refused() {
  Options options = options_;
  options.param_init = [](const InitCall& call) { return reset(call.module); };
  expect_refused(options, HasSubstr("the init function of words.embedding leaves without "
                                    "a value:\n  - words.embedding.weight: 12800 of "));
  // Whoever says that torch's defaults will do would have lost what attention meant.
  options.param_init = [](const InitCall& call) {
    reset(call.module);
    return InitDone::kLeftRest;
  };
  expect_refused(options, HasSubstr("the init function of blocks.0.attention uses "
                                    "blocks.0.attention.query.weight"));
}

void FromNothing::lists_that_are_wrong_run_nothing() {
  expect_refused(
      with({resets<AttentionImpl>(), resets<WordsImpl>()}),
      AllOf(HasSubstr("no type of init_types covers:"), HasSubstr("::NormImpl"),
            HasSubstr("blocks.3.glu.down.weight of torch::nn::LinearImpl"),
            HasSubstr("rotary.table of"), Not(HasSubstr("attention"))));
  std::vector<InitType> types = exclusive_types();
  types.push_back(resets<nn::LinearImpl>());
  expect_refused(with(types),
                 AllOf(HasSubstr("would initialise twice"),
                       HasSubstr("blocks.0.attention.query (torch::nn::LinearImpl) lies "
                                 "inside blocks.0.attention ("),
                       HasSubstr("words.head (torch::nn::LinearImpl) lies inside words"),
                       Not(HasSubstr("norm"))));
}

void FromNothing::each_module_is_reset_once() {
  int64_t numel = 0;
  first_ = params(with(exclusive_types()), nowhere, [&](Engine& engine, Model&) {
    if (engine.rank() > 0) return;
    for (const InitEntry& entry : engine.init_report()) {
      if (!entry.is_buffer) numel += entry.numel;
    }
    EXPECT_EQ(numel, engine.num_parameters());
  });
  ASSERT_EQ(num_calls_.size(), 1 + 4 * 4 + 1u);
  for (const auto& [fqn, count] : num_calls_) EXPECT_EQ(count, ranks()) << fqn;
  const auto std_of = [&](const char* fqn) {
    return first_.at(fqn).std().item<double>();
  };
  EXPECT_NEAR(std_of("blocks.3.attention.query.weight"), 0.02, 0.001);
  EXPECT_NEAR(std_of("blocks.0.glu.down.weight"), 0.03, 0.002);
  EXPECT_NEAR(std_of("words.head.weight"), 0.01, 0.001);
  EXPECT_TRUE(torch::equal(first_.at("norm.weight"), torch::ones({kDim})));
}

void FromNothing::no_rank_holds_more_than_a_module() {
  const Options options = with(exclusive_types());
  const LlamaImpl full;
  const int64_t largest = bytes_of(*full.words), beside = 16 << 10;  // torch's generators
  ASSERT_GT(bytes_of(full), 5 * (largest + beside));
  each_rank([&](std::unique_ptr<Ranks> comm) {
    const HeldBytes held;
    const Engine engine(nowhere(), options, std::move(comm));
    EXPECT_GE(held.most(), largest);
    EXPECT_LE(held.most(), largest + beside);
  });
}

void FromNothing::a_full_copy_gives_the_same() {
  const auto full = [&](int = 0) {
    auto model = std::make_shared<LlamaImpl>();
    set_params(*model, first_);
    return model;
  };
  Options options = options_;
  options.source = Source::kRank0;
  expect_same_values(
      params(options, [&](int rank) { return rank == 0 ? full() : nowhere(); }), first_);
  options.source = Source::kEveryRank;
  expect_same_values(params(options, full), first_);
}

void FromNothing::a_table_is_computed_after_sharding() {
  Options options = with(exclusive_types());
  std::atomic<int> num_computed = 0;
  options.post_init = [&](Engine& engine, nn::Module& model) {
    EXPECT_TRUE(torch::equal(model.named_buffers()["rotary.table"],
                             torch::zeros({kLength, kDim})));
    engine.set_buffer("rotary.table", RotaryImpl::computed());
    ++num_computed;
  };
  LlamaImpl plain;
  set_params(plain, first_);
  plain.rotary->table.copy_(RotaryImpl::computed());
  const at::Tensor loss = plain.forward(tokens());
  const auto check = [&](Engine& engine, Model& model) {
    EXPECT_TRUE(torch::equal(model->rotary->table, RotaryImpl::computed()));
    EXPECT_TRUE(engine.init_report().back().after_post_init);
    expect_near(engine.forward(model, tokens()), loss);
  };
  expect_same_values(params(options, nowhere, check), first_);
  EXPECT_EQ(num_computed, ranks());
}

void FromNothing::a_checkpoint_makes_it_unnecessary() {
  Options options = with(exclusive_types());
  options.post_init = [](Engine& engine, nn::Module&) {
    engine.set_buffer("rotary.table", RotaryImpl::computed());
  };
  std::string path;
  const Values trained = params(options, nowhere, [&](Engine& engine, Model& model) {
    engine.backward(engine.forward(model, tokens()), 2 * kLength);
    engine.step();
    SavedState state;
    state.step = 1;
    const std::string saved = save_checkpoint(engine, run_, state);
    if (engine.rank() == 0) path = saved;
  });
  num_calls_.clear();
  options.source = Source::kCheckpoint;
  options.post_init = [](Engine&, nn::Module&) { FAIL() << "a checkpoint follows"; };
  const Values loaded = params(options, nowhere, [&](Engine& engine, Model& model) {
    load_checkpoint(engine, path);
    EXPECT_TRUE(torch::equal(model->rotary->table, RotaryImpl::computed()));
    EXPECT_EQ(engine.num_steps(), 1);
  });
  expect_same_values(loaded, trained);
  EXPECT_TRUE(num_calls_.empty());
}

// --- A function for each module's own parameters, and a check around it (SageMaker's
// delayed parameter initialization, for its GPT-NeoX).

constexpr double kRange = 0.02;  // initializer_range

struct LayerImpl : nn::Module {
  LayerImpl() {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    up = register_module("up", nn::Linear(16, 40));
    down = register_module("down", linear(40, 16));
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};

struct NeoXImpl : nn::Module {
  NeoXImpl() {
    embed_in = register_module(
        "embed_in", nn::Embedding(nn::EmbeddingOptions(50, 16).padding_idx(0)));
    for (int i = 0; i < 2; ++i) layers->push_back(Unit<LayerImpl>::make());
    register_module("layers", layers);
    final_norm = register_module("final_norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    embed_out = register_module("embed_out", linear(16, 50));
    mean = register_buffer(
        "mean", torch::tril(torch::ones({8, 8})) / torch::arange(1, 9).unsqueeze(1));
  }
  // Each word from the mean of those before it.
  at::Tensor forward(const at::Tensor& words) {
    at::Tensor x = mean.matmul(embed_in(words));
    for (auto& layer : *layers) x = layer.value()(x);
    const at::Tensor logits = embed_out(final_norm(x)).narrow(1, 0, 7);
    return nn::functional::cross_entropy(
        logits.reshape({-1, 50}), words.narrow(1, 1, 7).flatten(),
        nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  nn::Embedding embed_in{nullptr};
  UnitList<LayerImpl> layers{std::make_shared<UnitListImpl<LayerImpl>>()};
  nn::LayerNorm final_norm{nullptr};
  nn::Linear embed_out{nullptr};
  at::Tensor mean;
};

bool init_linear(nn::Module& module) {
  auto* linear = module.as<nn::LinearImpl>();
  if (!linear) return false;
  linear->weight.normal_(0, kRange);
  if (linear->bias.defined()) linear->bias.zero_();
  return true;
}

bool init_embedding(nn::Module& module) {
  auto* embedding = module.as<nn::EmbeddingImpl>();
  if (!embedding) return false;
  embedding->weight.normal_(0, kRange);
  if (const auto row = embedding->options.padding_idx()) embedding->weight[*row].zero_();
  return true;
}

bool init_norm(nn::Module& module) {
  auto* norm = module.as<nn::LayerNormImpl>();
  if (!norm) return false;
  norm->weight.fill_(1);
  norm->bias.zero_();
  return true;
}

InitDone init_weights(const InitCall& call) {
  init_linear(call.module) || init_embedding(call.module) || init_norm(call.module);
  return InitDone::kAll;
}

void tie_by_copy(Engine& engine, nn::Module&) {
  engine.set_full_parameter("embed_out.weight", engine.full_parameter("embed_in.weight"));
}

class Delayed : public Story {
 protected:
  Delayed() { options_.param_init = init_weights; }

  using Model = std::shared_ptr<NeoXImpl>;
  void run(int ranks, const std::function<void(Engine&, Model&)>& body) const {
    on_ranks(ranks, [&](std::unique_ptr<Ranks> comm) {
      Model model = deferred<NeoXImpl>();
      Engine engine(model, options_, std::move(comm));
      body(engine, model);
    });
  }
  Values first_values(int ranks) const {
    return full_values(
        ranks, options_, [] { return deferred<NeoXImpl>(); }, [](Engine&) {});
  }
  static at::Tensor words(int step, int micro_batch) {
    return torch::arange(16).mul(3 + micro_batch).add(step).remainder(50).view({2, 8});
  }
  static constexpr int kSteps = 3, kMicroBatches = 12, kTargets = 14;
  Values trained_by_torch(const Values& first) const;

  // The chapters.
  void a_forgotten_class_is_named();
  void all_is_initialised_as_meant();
  void any_ranks_start_with_the_same_bits();
  void the_head_is_tied_afterwards();
  void it_trains_as_plain_libtorch();
};

INSTANTIATE_TEST_SUITE_P(Ranks, Delayed, ::testing::Values(1, 2, 3, 4));

TEST_P(Delayed, AModelIsInitialisedWhereItIsSharded) {
  a_forgotten_class_is_named();
  all_is_initialised_as_meant();
  any_ranks_start_with_the_same_bits();
  the_head_is_tied_afterwards();
  it_trains_as_plain_libtorch();
}

void Delayed::a_forgotten_class_is_named() {
  Options options = options_;
  options.param_init = [](const InitCall& call) {
    init_linear(call.module) || init_embedding(call.module);
    return InitDone::kAll;
  };
  each_rank([&](std::unique_ptr<Ranks> comm) {
    EXPECT_THAT(error_of([&] {
                  const auto model = deferred<NeoXImpl>();
                  const CheckInitialised check(model);
                  const Engine engine(model, options, std::move(comm));
                }),
                AllOf(HasSubstr("the init function of layers.0.norm leaves without a "
                                "value:\n  - layers.0.norm.weight: 16 of 16 elements"),
                      HasSubstr("layers.0.norm.bias: 16 of 16"), Not(HasSubstr("up."))));
  });
}

void Delayed::all_is_initialised_as_meant() {
  each_rank([&](std::unique_ptr<Ranks> comm) {
    const auto model = deferred<NeoXImpl>();
    const CheckInitialised check(model);
    Engine engine(model, options_, std::move(comm));
    const Values all = params_of(engine);
    for (const auto& [fqn, value] : all) {
      const bool is_norm = fqn.find("norm.weight") != fqn.npos;
      if (is_norm || fqn.ends_with(".bias"))
        EXPECT_TRUE(torch::equal(value, torch::full_like(value, is_norm ? 1 : 0))) << fqn;
      else
        EXPECT_NEAR(value.std().item<double>(), kRange, kRange / 5) << fqn;
    }
    const at::Tensor& embedding = all.at("embed_in.weight");
    EXPECT_TRUE(torch::equal(embedding[0], torch::zeros({16})));
    EXPECT_NE(embedding[1].abs().min().item<double>(), 0);
    EXPECT_TRUE(torch::equal(model->mean, NeoXImpl().mean));
  });
}

void Delayed::any_ranks_start_with_the_same_bits() {
  expect_same_values(first_values(ranks()), first_values(1));
}

void Delayed::the_head_is_tied_afterwards() {
  const Values before = first_values(ranks());
  options_.post_init = tie_by_copy;
  Values expected = before;
  expected["embed_out.weight"] = before.at("embed_in.weight");
  expect_same_values(first_values(ranks()), expected);
  run(ranks(), [](Engine& engine, Model&) {
    std::vector<std::string> written;
    for (const InitEntry& entry : engine.init_report()) {
      if (entry.after_post_init) written.push_back(entry.fqn);
    }
    EXPECT_THAT(written, ElementsAre("embed_out.weight"));
  });
}

Values Delayed::trained_by_torch(const Values& first) const {
  NeoXImpl plain;
  set_params(plain, first);
  const OptimizerOptions& ours = options_.optimizer;
  torch::optim::AdamW optimizer(plain.parameters(),
                                torch::optim::AdamWOptions(options_.schedule.lr)
                                    .betas({ours.beta1, ours.beta2})
                                    .eps(ours.eps)
                                    .weight_decay(ours.weight_decay));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int m = 0; m < kMicroBatches; ++m)
      (plain.forward(words(step, m)) / (kMicroBatches * kTargets)).backward();
    optimizer.step();
  }
  Values trained;
  for (const auto& item : plain.named_parameters())
    trained[item.key()] = item.value().detach();
  return trained;
}

void Delayed::it_trains_as_plain_libtorch() {
  const Values expected = trained_by_torch(first_values(1));
  run(ranks(), [&](Engine& engine, Model& model) {
    const at::Tensor before = engine.full_parameter("embed_in.weight");
    for (int step = 0; step < kSteps; ++step) {
      for (int m = engine.rank(); m < kMicroBatches; m += engine.size())
        engine.backward(engine.forward(model, words(step, m)), kTargets);
      EXPECT_FALSE(engine.step().skipped);
    }
    const Values trained = params_of(engine);
    for (const auto& [fqn, value] : trained)
      EXPECT_TRUE(torch::allclose(value, expected.at(fqn), 1.3e-6, 1e-5)) << fqn;
    EXPECT_FALSE(torch::equal(trained.at("embed_in.weight"), before));
    EXPECT_TRUE(torch::equal(trained.at("embed_in.weight")[0], torch::zeros({16})));
  });
}

}  // namespace
}  // namespace zero::testing::init_stories_test
