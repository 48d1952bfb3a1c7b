// Models that are a part of one: what they have, and what becomes of them together.
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/safetensors_writer.h"
#include "examples/models/families.h"
#include "launcher/huggingface/export.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_model.h"
#include "tests/engine/training.h"
#include "tests/examples/language_model.h"
#include "tests/launcher/settings/configs.h"
#include "zero/save_load.h"

namespace zero::parts_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Parts = std::vector<std::string>;

const Parts kFirst = {"embed", "layers=0:1"}, kSecond = {"layers=1:3", "norm", "head"};

class PartsOf : public ::testing::TestWithParam<std::string> {
 protected:
  PartsOf() {
    launcher::Settings settings;
    settings.preset = GetParam();
    settings.layers = 3;
    settings.vocab = 64;
    settings.seq_len = 8;
    settings.model_config = {"tie_word_embeddings=false"};
    whole_ = launcher::new_shape(family_, settings);
    if (GetParam() == "qwen2.5-0.5b")  // of which layers a query sees differs
      whole_.config.update(json{{"use_sliding_window", true},
                                {"sliding_window", 3},
                                {"max_window_layers", 1},
                                {"hidden_size", 32},
                                {"intermediate_size", 48},
                                {"num_attention_heads", 4},
                                {"num_key_value_heads", 2}});
  }

  ModelShape shape_of(const Parts& parts) const {
    ModelShape shape = whole_;
    if (!parts.empty()) shape.config[kParts] = parts;
    family_.check(shape);
    return shape;
  }
  std::unique_ptr<Model> make(const Parts& parts) const {
    return family_.make(shape_of(parts));
  }

  const ModelFamilies families_ = example_families();
  const ModelFamily family_ = *launcher::family_of_preset(families_, GetParam());
  ModelShape whole_;
};

Decoder& decoder_of(Model& model) { return dynamic_cast<Decoder&>(*model.module()); }

// Values that let every part be felt.
void fill(Model& model) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  for (at::Tensor& weight : model.module()->parameters()) weight.normal_(0, 0.3);
}

void take_values(Model& part, Model& whole) {
  const torch::NoGradGuard no_grad;
  const auto values = whole.module()->named_parameters();
  for (auto& item : part.module()->named_parameters())
    item.value().copy_(values[item.key()]);
}

// As a pipeline: each stage's stream goes into the next one, and gradients come back.
at::Tensor run_through(const std::vector<std::unique_ptr<Model>>& stages,
                       const at::Tensor& tokens, const at::Tensor& targets) {
  std::vector<at::Tensor> inputs = {tokens}, outputs;
  for (const auto& stage : stages) {
    outputs.push_back(decoder_of(*stage).forward(inputs.back(), targets));
    inputs.push_back(outputs.back().detach().requires_grad_());
  }
  outputs.back().backward();
  for (size_t i = stages.size() - 1; i > 0; --i)
    outputs[i - 1].backward(inputs[i].grad());
  return outputs.back();
}

TEST_P(PartsOf, StagesGiveTheWholesLossAndGradientsBitForBit) {
  const auto whole = make({});
  fill(*whole);
  const at::Tensor text = torch::randint(64, {2, 9}, torch::kLong);
  const at::Tensor tokens = text.narrow(1, 0, 8), targets = text.narrow(1, 1, 8);
  const at::Tensor expected = decoder_of(*whole).forward(tokens, targets);
  expected.backward();
  const auto values = whole->module()->named_parameters();
  for (const std::vector<Parts>& split :
       {std::vector<Parts>{kFirst, kSecond},
        {{"embed"}, {"layers=0:2"}, {"layers=2:3"}, {"head", "norm"}}}) {
    std::vector<std::unique_ptr<Model>> stages;
    size_t num_names = 0;
    for (const Parts& parts : split) {
      stages.push_back(make(parts));
      take_values(*stages.back(), *whole);
      num_names += stages.back()->module()->named_parameters().size();
    }
    EXPECT_EQ(num_names, values.size()) << "each name is in one of them";
    EXPECT_TRUE(torch::equal(run_through(stages, tokens, targets), expected));
    for (const auto& stage : stages) {
      for (const auto& item : stage->module()->named_parameters())
        EXPECT_TRUE(torch::equal(item.value().grad(), values[item.key()].grad()))
            << item.key();
    }
    EXPECT_TRUE(torch::equal(
        [&] {
          at::Tensor x = tokens;
          for (const auto& stage : stages) x = decoder_of(*stage).forward(x, {});
          return x;
        }(),
        decoder_of(*whole).logits(tokens)));
  }
}

TEST_P(PartsOf, TakeWhatTheyHave) {
  const auto count = [&](const Parts& parts) {
    return launcher::count_parameters(*make(parts));
  };
  EXPECT_EQ(count(kFirst) + count(kSecond), count({}));
  ModelShape shallow = whole_;
  shallow.config[shallow.keys.layers] = 2;
  const PassShape pass{.rows = 2, .rows_in_units = 2};
  const auto bytes = [&](const ModelShape& shape) {
    return family_.activation_bytes(shape, pass).computed;
  };
  EXPECT_EQ(bytes(shape_of({"embed", "layers=1:3", "norm", "head"})), bytes(shallow));
  ModelShape much = shape_of(kFirst);
  much.config["vocab_size"] = 1 << 20;
  ModelShape head = much;
  head.config[kParts] = kSecond;
  EXPECT_LT(bytes(shape_of({"layers=0:1"})), bytes(much)) << "an embedding's gradient";
  EXPECT_LT(bytes(shape_of({"layers=1:3"})), bytes(head)) << "logits";
}

INSTANTIATE_TEST_SUITE_P(Families, PartsOf,
                         ::testing::Values("gpt2-tiny", "llama-1m", "qwen2.5-0.5b",
                                           "gptj-1m", "pythia-1m"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find_first_of("-."));
                         });

// Checkpoints of parts of one small model, in a folder that goes away.
class PartsTest : public ::testing::Test {
 protected:
  PartsTest() {
    settings_.model = "llama";
    settings_.preset = "llama-1m";
    settings_.layers = 3;
    settings_.dim = 32;
    settings_.vocab = 256;
    settings_.model_config = {"tie_word_embeddings=false"};
  }

  ModelShape shape_of(const Parts& parts) const {
    launcher::Settings settings = settings_;
    settings.parts = parts;
    return launcher::new_shape(family_, settings);
  }
  Options options(const ModelShape& shape, Source source) const {
    Options options;
    options.seed = 7;
    options.init = family_.init_rules(shape);
    options.source = source;
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    return options;
  }
  // As the verb does it; returns the step's folder.
  std::string seed(const std::string& name, const Parts& parts,
                   const json& source = {}) const {
    const ModelShape shape = shape_of(parts);
    launcher::SavedRun run;
    run.settings = settings_;
    run.settings.parts = parts;
    run.vocab = shape.vocab();
    run.model = shape.config;
    run.source = source;
    SavedState state;
    state.config = launcher::to_text(run);
    return save_seed(*launcher::make_deferred(family_, shape)->module(),
                     options(shape, Source::kInit), folder_.path(name), state);
  }
  // The values of an engine for these parts, which `load` reads.
  std::map<std::string, std::vector<float>> loaded(
      const Parts& parts, const std::function<void(Engine&)>& load) const {
    const ModelShape shape = shape_of(parts);
    testing::Trained all;
    testing::on_ranks(1, [&](std::unique_ptr<Ranks> ranks) {
      Engine engine(launcher::make_deferred(family_, shape)->module(),
                    options(shape, Source::kCheckpoint), std::move(ranks));
      load(engine);
      testing::collect_shards(engine, all);
    });
    return all.params;
  }
  std::map<std::string, std::vector<float>> initialised(const Parts& parts) const {
    return loaded(parts, [](Engine& engine) {
      engine.initialize();
      engine.masters_changed();
    });
  }

  std::vector<std::string> others_of(const Parts& parts) const {
    return launcher::names_of_other_parts(family_, shape_of(parts));
  }

  void exported(const std::vector<std::string>& from, const std::string& to,
                int64_t max_file_bytes = 1 << 30) const {
    launcher::export_model({.from = from,
                            .to = folder_.path(to),
                            .dtype = {},
                            .max_file_bytes = max_file_bytes},
                           families_);
  }
  std::string refusal_of(const std::vector<std::string>& from) const {
    try {
      exported(from, "refused");
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(folder_.path("refused")));
      return error.what();
    }
    return "";
  }

  const launcher::TempFolder folder_;
  const ModelFamilies families_ = example_families();
  const ModelFamily family_ = *launcher::find_family(families_, "llama");
  launcher::Settings settings_;
};

TEST_F(PartsTest, StartWithTheWholesValues) {
  auto together = initialised({"embed"});
  for (const Parts& parts :
       {Parts{"layers=1:2"}, {"layers=0:1", "head"}, {"norm", "layers=2:3"}})
    together.merge(initialised(parts));
  EXPECT_EQ(together, initialised({}));
}

TEST_F(PartsTest, ExportedTogetherAreTheWholesFiles) {
  const std::string whole = seed("whole", {});
  const std::string first = seed("first", kFirst), second = seed("second", kSecond);
  const auto expect_same = [&](const std::string& a, const std::string& b) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path(a))) {
      const std::string file = "/" + entry.path().filename().string();
      EXPECT_TRUE(folder_.read(a + file) == folder_.read(b + file)) << file;
    }
  };
  exported({whole}, "a");
  exported({second, first}, "b");
  expect_same("a", "b");
  exported({whole}, "a_files", 50000);  // as tensors come
  exported({second, first}, "b_files", 50000);
  expect_same("a_files", "b_files");
  exported({first}, "c");
  EXPECT_EQ(json::parse(folder_.read("c/config.json"))[kParts], json(kFirst));
}

// Where a part was imported, its config.json is what the whole's is made of.
TEST_F(PartsTest, ExportedTogetherAreNoPart) {
  exported({seed("first", kFirst, {{kParts, kFirst}}), seed("second", kSecond)}, "whole");
  EXPECT_FALSE(json::parse(folder_.read("whole/config.json")).contains(kParts));
}

TEST_F(PartsTest, AreJoinedOnlyToAWhole) {
  const std::string first = seed("first", kFirst), second = seed("second", kSecond),
                    more = seed("more", {"layers=0:3", "norm", "head"}),
                    norm = seed("norm", {"norm"});
  EXPECT_THAT(refusal_of({first, more}),
              AllOf(HasSubstr("model.layers.0.input_layernorm.weight is in both"),
                    HasSubstr(first), HasSubstr(more)));
  EXPECT_THAT(
      refusal_of({first, norm}),
      AllOf(HasSubstr("19 tensor(s) of the whole model are in none: lm_head.weight, "
                      "model.layers.1."),
            HasSubstr("each part of one model once")));
  settings_.model_config.emplace_back("rms_norm_eps=0.5");
  EXPECT_THAT(refusal_of({first, seed("other", kSecond)}),
              HasSubstr("of two models: rms_norm_eps is 1e-05 and 0.5"));
}

// For a program of one's own, whose engine of the whole goes on.
TEST_F(PartsTest, CheckpointsAreLoadedOneAfterTheOther) {
  const std::string first = seed("first", kFirst), second = seed("second", kSecond);
  const LoadOptions options{false, false, /*allow_missing=*/{"*"}, {}};
  EXPECT_EQ(loaded({},
                   [&](Engine& engine) {
                     EXPECT_EQ(load_checkpoint(engine, first, options).missing.size(),
                               20);
                     load_checkpoint(engine, second, options);
                   }),
            initialised({}));
}

TEST_F(PartsTest, ReadTheirOwnOfAWholesCheckpoint) {
  const std::string whole = seed("whole", {});
  const auto others = others_of(kFirst);
  EXPECT_EQ(others.size(), 20);
  EXPECT_EQ(
      loaded(kFirst,
             [&](Engine& engine) {
               EXPECT_ANY_THROW(load_checkpoint(engine, whole, {false, false, {}, {}}));
               load_checkpoint(engine, whole, {false, false, {}, /*allow_extra=*/others});
             }),
      initialised(kFirst));
  EXPECT_TRUE(others_of({}).empty());
}

// Each tensor has a file of its own, and those of the other half are gone.
TEST_F(PartsTest, ReadTheirOwnFilesOfAWholesFolder) {
  exported({seed("whole", {})}, "hf", /*max_file_bytes=*/1);
  const std::string hf = folder_.path("hf");
  const json index = json::parse(folder_.read("hf/model.safetensors.index.json"));
  const SafetensorsNames names{"model.", {}, others_of(kFirst)};
  for (const std::string& name : names.elsewhere)
    std::filesystem::remove(hf + "/" + index["weight_map"][name].get<std::string>());
  EXPECT_EQ(loaded(kFirst,
                   [&](Engine& engine) {
                     EXPECT_ANY_THROW(load_safetensors(engine, hf, {"model.", {}}));
                     EXPECT_TRUE(load_safetensors(engine, hf, names).empty());
                   }),
            initialised(kFirst));
}

// Those of older files, which leave out what stands before all names but the head's.
TEST_F(PartsTest, ReadTheirOwnUnderOldNames) {
  const auto whole = initialised({});
  const auto bare = [](const std::string& fqn) {
    return fqn.starts_with("model.") ? fqn.substr(6) : fqn;
  };
  std::vector<checkpoint::SafeTensorSpec> specs;
  const auto model = launcher::make_deferred(family_, shape_of({}));
  for (const auto& item : model->module()->named_parameters())
    specs.push_back({bare(item.key()), DType::kFp32, item.value().sizes().vec()});
  std::filesystem::create_directory(folder_.path("old"));
  checkpoint::SafetensorsWriter writer(folder_.path("old"), specs, 1 << 30);
  for (const auto& [fqn, values] : whole) writer.write(bare(fqn), 0, values);
  writer.finish();
  EXPECT_EQ(loaded(kSecond,
                   [&](Engine& engine) {
                     load_safetensors(engine, folder_.path("old"),
                                      {"model.", {}, others_of(kSecond)});
                   }),
            initialised(kSecond));
}

TEST_F(PartsTest, WhatIsNoPartIsRefused) {
  const auto refusal = [&](const json& parts) -> std::string {
    ModelShape shape = shape_of({});
    shape.config[kParts] = parts;
    try {
      family_.check(shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({"head", "embed", "layers=0:3", "norm"}), "");
  for (const char* word :
       {"layers=1:1", "layers=2:1", "layers=1", "layers=0:1x", "tail", ""})
    EXPECT_THAT(refusal({"embed", word}), HasSubstr("parts has \"" + std::string(word)));
  EXPECT_THAT(refusal({"norm", "norm"}), HasSubstr("parts has \"norm\""));
  EXPECT_THAT(refusal({"layers=0:1", "layers=1:2"}), HasSubstr("parts has \"layers=1:2"));
  EXPECT_THAT(refusal({"layers=0:4"}), HasSubstr("layers=0:4 of a model with 3 layers"));
  EXPECT_THAT(refusal({"layers=-1:3"}),
              HasSubstr("layers=-1:3 of a model with 3 layers"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("no part"));
  for (const json& list : {json("embed"), json{1}, json{{"embed", 1}}})
    EXPECT_THAT(refusal(list), HasSubstr("a list of texts")) << list;
  settings_.model_config = {"tie_word_embeddings=true"};
  EXPECT_EQ(refusal({"embed", "head"}), "");
  EXPECT_EQ(refusal({"layers=0:3"}), "");
  for (const char* end : {"embed", "head"})
    EXPECT_THAT(refusal({end, "layers=0:3"}), HasSubstr("one tensor")) << end;
}

}  // namespace
}  // namespace zero::parts_test
