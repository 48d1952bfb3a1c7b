// From settings to the shape of a model: a new one, and one that is there.
#include "launcher/settings/chosen_model.h"

#include <gmock/gmock.h>

#include "zero/errors.h"

namespace zero::launcher::chosen_model_test {
namespace {

using nlohmann::json;

// One with everything that a family can have, and two classes.
ModelFamily some_family() {
  ModelFamily family;
  family.name = "some";
  family.keys = {.layers = "n_layer",
                 .dim = "n_embd",
                 .heads = "n_head",
                 .ffn_dim = "n_inner",
                 .positions = "n_positions"};
  ConfigClass first{"one",
                    "OneForCausalLM",
                    {{"vocab_size", 500},
                     {"n_layer", 3},
                     {"n_embd", 64},
                     {"n_head", 4},
                     {"n_inner", 256},
                     {"n_positions", 128},
                     {"scale", 0.5},
                     {"name", "x"},
                     {"parts", {{"a", 1}, {"b", 2}}}},
                    {{"act", {"gelu", "gelu_new"}}},
                    {"pdrop"},
                    {{"hidden_size", "n_embd"}}};
  ConfigClass second = first;
  second.model_type = "two";
  second.defaults["n_layer"] = 7;
  family.classes = {first, second};
  family.presets = {{"small", {{"vocab_size", nullptr}}},
                    {"large", {{"model_type", "two"}, {"n_embd", 640}}}};
  family.default_preset = "small";
  family.resize = [](json& config) {
    config["n_inner"] = config["n_embd"].get<int64_t>() * config["n_head"].get<int64_t>();
  };
  family.modernise = [](json& config) {
    if (const auto old = config.find("old_scale"); old != config.end()) {
      config["scale"] = *old;
      config.erase(old);
    }
  };
  return family;
}

ModelFamily with_learned_positions() {
  ModelFamily family = some_family();
  family.learns_positions = true;
  return family;
}

Settings with(const std::vector<std::string>& model_config) {
  Settings settings;
  settings.model_config = model_config;
  return settings;
}

template <class Action>
std::string complaint(Action action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.problem();
  }
}

std::string complaint_of_new(const Settings& settings) {
  return complaint([&] { new_shape(some_family(), settings); });
}
std::string complaint_of(const Settings& settings,
                         const ModelFamily& family = some_family()) {
  const json config = complete_config(family, json::object());
  return complaint([&] { shape_of(family, config, settings); });
}

TEST(CompleteConfig, IsWhatIsGivenOverTheDefaultsOfItsClass) {
  const ModelFamily family = some_family();
  json config = complete_config(family, {{"n_embd", 32}, {"parts", {{"b", 5}}}});
  EXPECT_EQ(config["model_type"], "one");
  EXPECT_EQ(config["n_embd"], 32);
  EXPECT_EQ(config["n_layer"], 3);
  EXPECT_EQ(config["parts"], (json{{"a", 1}, {"b", 5}}));
  config = complete_config(family, {{"model_type", "two"}, {"n_head", nullptr}});
  EXPECT_EQ(config["n_layer"], 7);
  EXPECT_EQ(config["n_head"], json());
  EXPECT_EQ(complete_config(family, config), config);
}

TEST(CompleteConfig, HasEachKeyUnderItsOwnName) {
  const ModelFamily family = some_family();
  const json config =
      complete_config(family, {{"hidden_size", 32}, {"old_scale", 3}, {"other", 1}});
  EXPECT_EQ(config["n_embd"], 32);
  EXPECT_EQ(config["scale"], 3);
  EXPECT_EQ(config.size(), family.classes[0].defaults.size() + 1) << config;
  EXPECT_EQ(complete_config(family, {{"hidden_size", 48}, {"n_embd", 48}})["n_embd"], 48);
  for (const json& nothing : {json{{"hidden_size", nullptr}, {"n_embd", 48}},
                              json{{"hidden_size", 48}, {"n_embd", nullptr}}})
    EXPECT_EQ(complete_config(family, nothing)["n_embd"], 48);
  EXPECT_EQ(complaint([&] {
              complete_config(family, {{"hidden_size", 32}, {"n_embd", 48}});
            }),
            "n_embd is 48 and hidden_size is 32, which are two names of one value");
}

TEST(CompleteConfig, WhatFollowsFromDefaultsIsInIt) {
  ModelFamily family = some_family();
  family.modernise = [](json& config) {
    if (config.contains("n_positions") && config.contains("scale"))
      config["scale"] = config["n_positions"];
  };
  EXPECT_EQ(complete_config(family, {{"scale", 1}})["scale"], 128);
}

TEST(CompleteConfig, RefusesAnotherModel) {
  const ModelFamily family = some_family();
  for (const json act : {"gelu", "gelu_new"})
    EXPECT_NO_THROW(complete_config(family, {{"act", act}}));
  EXPECT_EQ(complaint([&] {
              complete_config(family, {{"act", "relu"}});
            }),
            "act is \"relu\" in this config, which is not here");
}

TEST(UnreadKeys, AreThoseThatMayMatter) {
  const json config = {{"hidden_size", 1},  {"old_scale", 1},    {"act", "gelu"},
                       {"pdrop", 0.1},      {"use_cache", true}, {"logit_scale", 2},
                       {"nothing", nullptr}};
  EXPECT_EQ(unread_keys(some_family(), config), std::vector<std::string>{"logit_scale"});
}

TEST(Families, AreFoundByTheTypeOfAConfig) {
  const ModelFamilies families = {some_family()};
  EXPECT_EQ(family_of_config(families, {{"model_type", "two"}}), &families[0]);
  EXPECT_EQ(family_of_config(families, {{"model_type", "three"}}), nullptr);
  EXPECT_EQ(family_of_config(families, {{"model_type", 2}}), nullptr);
  EXPECT_EQ(family_of_config(families, {{"n_embd", 2}}), nullptr);
}

TEST(NewShape, IsThePresetWithTheSettingsInItsPlace) {
  Settings settings;
  ModelShape shape = new_shape(some_family(), settings);
  EXPECT_EQ(shape.layers(), 3);
  EXPECT_EQ(shape.ffn_dim(), 256);
  EXPECT_EQ(shape.config["vocab_size"], json()) << "the data tells";
  EXPECT_EQ(shape.seq_len, 128);
  settings.preset = "large";
  EXPECT_EQ(new_shape(some_family(), settings).layers(), 7);
  EXPECT_EQ(new_shape(some_family(), settings).dim(), 640);
  settings.layers = 2, settings.vocab = 99, settings.seq_len = 16;
  settings.dropout = 0.5, settings.loss_chunk = 8;
  EXPECT_FALSE(shape.sublayers);
  shape = new_shape(some_family(), settings);
  EXPECT_EQ(shape.layers(), 2);
  EXPECT_EQ(shape.vocab(), 99);
  EXPECT_EQ(shape.seq_len, 16);
  EXPECT_EQ(shape.dropout, 0.5);
  EXPECT_EQ(shape.loss_chunk, 8);
}

TEST(NewShape, OfAnotherWidthHasTheSizesThatFollow) {
  Settings settings;
  settings.dim = 96;
  EXPECT_EQ(new_shape(some_family(), settings).ffn_dim(), 384);
  settings.ffn_dim = 100;
  EXPECT_EQ(new_shape(some_family(), settings).ffn_dim(), 100)
      << "unless it is asked for";
  settings = {};
  settings.heads = 8;
  EXPECT_EQ(new_shape(some_family(), settings).ffn_dim(), 512);
  settings.dim = 64, settings.heads = 4;  // those of the preset
  settings.layers = 9;
  EXPECT_EQ(new_shape(some_family(), settings).config["n_inner"], 256);
  ModelFamily family = some_family();
  family.resize = [](json&) { FAIL() << "nothing changes its width"; };
  new_shape(family, settings);
}

TEST(NewShape, HasPositionsForItsSamples) {
  Settings settings;
  settings.seq_len = 100;
  EXPECT_EQ(new_shape(some_family(), settings).config["n_positions"], 128);
  EXPECT_EQ(new_shape(with_learned_positions(), settings).config["n_positions"], 100);
  settings.seq_len = 200;
  EXPECT_EQ(new_shape(some_family(), settings).config["n_positions"], 200);
  EXPECT_EQ(new_shape(with_learned_positions(), settings).config["n_positions"], 200);
}

TEST(NewShape, ASampleIsAsLongAsTheModelIsMadeForButNotWithoutEnd) {
  EXPECT_EQ(new_shape(some_family(), with({"n_positions=2000"})).seq_len, 2000);
  EXPECT_EQ(new_shape(some_family(), with({"n_positions=9000"})).seq_len, 2048);
  EXPECT_EQ(complaint_of_new(with({"n_positions=null"})),
            "seq_len is missing: this model does not tell it");
}

TEST(ModelConfig, ChangesAnyKey) {
  const json config =
      new_shape(some_family(),
                with({"scale=0.25", "n_layer=5", "parts={\"a\": 7}", "vocab_size=null"}))
          .config;
  EXPECT_EQ(config["scale"], 0.25);
  EXPECT_EQ(config["n_layer"], 5);
  EXPECT_EQ(config["parts"], (json{{"a", 7}, {"b", 2}})) << "objects key by key";
  EXPECT_EQ(config["vocab_size"], json());
}

TEST(ModelConfig, IsATextWhereItIsNoJson) {
  for (const auto& [word, value] :
       {std::pair("name=gelu_new", "gelu_new"), {"name=", ""}, {"name=a=b", "a=b"}})
    EXPECT_EQ(new_shape(some_family(), with({word})).config["name"], value) << word;
}

TEST(ModelConfig, UnderstandsOldNames) {
  const json config =
      new_shape(some_family(), with({"hidden_size=32", "old_scale=3"})).config;
  EXPECT_EQ(config["n_embd"], 32);
  EXPECT_EQ(config["scale"], 3);
}

TEST(ModelConfig, IsRefusedUnlessItIsAKeyAndAValue) {
  for (const char* word : {"scale", "=3", ""}) {
    const std::string problem = "model_config is \"" + std::string(word) + "\"";
    EXPECT_EQ(complaint_of_new(with({word})), problem);
    EXPECT_EQ(complaint_of(with({word})), problem);
  }
  EXPECT_TRUE(complaint_of_new(with({"n_layers=3"}))
                  .starts_with("model_config names \"n_layers\"; nearest: n_layer;"));
  EXPECT_NE(complaint_of_new(with({"model_type=two"})), "") << "that is another model";
}

TEST(ModelThatIsThere, HasTheSizesThatItHas) {
  Settings settings;
  settings.layers = 3, settings.dim = 64, settings.vocab = 500;
  EXPECT_EQ(complaint_of(settings), "");
  settings.layers = 4;
  EXPECT_EQ(complaint_of(settings), "the model that is there has layers 3, not 4");
}

TEST(ModelThatIsThere, TakesOtherKeysByName) {
  const ModelFamily family = some_family();
  const json config = complete_config(family, json::object());
  const ModelShape shape = shape_of(family, config, with({"scale=2"}));
  EXPECT_EQ(shape.config["scale"], 2);
  EXPECT_EQ(shape.layers(), 3);
}

TEST(ModelThatIsThere, TakesSamplesUpToItsPositions) {
  Settings settings;
  settings.seq_len = 128;
  EXPECT_EQ(complaint_of(settings), "");
  settings.seq_len = 129;
  EXPECT_EQ(complaint_of(settings),
            "seq_len is 129, and the model is made for 128 positions");
  EXPECT_NE(complaint_of(settings, with_learned_positions()), "");
  settings.model_config = {"n_positions=129"};
  EXPECT_EQ(complaint_of(settings), "");
  settings = {};
  settings.seq_len = 16;
  const ModelFamily family = with_learned_positions();
  const json config = complete_config(family, json::object());
  EXPECT_EQ(shape_of(family, config, settings).config["n_positions"], 128)
      << "its parameters are there";
}

TEST(Settings, ThatAFamilyDoesNotHaveAreRefused) {
  Settings settings;
  settings.kv_heads = 2;
  EXPECT_EQ(complaint_of_new(settings), "kv_heads is no setting of this model");
  EXPECT_EQ(complaint_of(settings), "kv_heads is no setting of this model");
}

TEST(Units, AreHalvesOfLayersWhereAFamilyHasThem) {
  Settings settings;
  settings.units = "sublayer";
  for (const std::string& complaint :
       {complaint_of_new(settings), complaint_of(settings)}) {
    EXPECT_EQ(complaint,
              "units is \"sublayer\", and no layer of this model has attention "
              "and feed-forward");
  }
  ModelFamily family = some_family();
  family.has_sublayers = true;
  EXPECT_TRUE(new_shape(family, settings).sublayers);
}

// One that can be made in parts.
ModelFamily with_parts() {
  ModelFamily family = some_family();
  family.has_parts = true;
  return family;
}

Settings of_parts(const std::vector<std::string>& parts) {
  Settings settings;
  settings.parts = parts;
  return settings;
}

TEST(ModelParts, StandInTheConfig) {
  const ModelFamily family = with_parts();
  const json parts = {"embed", "layers=0:2"};
  EXPECT_EQ(new_shape(family, of_parts(parts)).config[kParts], parts);
  EXPECT_FALSE(new_shape(family, Settings()).config.contains(kParts));
  // Of a model that is there settings take a part, else it has those that it has.
  const json config = complete_config(family, {{kParts, parts}});
  EXPECT_EQ(config[kParts], parts);
  EXPECT_EQ(shape_of(family, config, Settings()).config[kParts], parts);
  EXPECT_EQ(shape_of(family, config, of_parts({"embed"})).config[kParts], json{"embed"});
  EXPECT_TRUE(unread_keys(family, config).empty());
}

TEST(ModelParts, ThatAreNullAreTheWhole) {
  const ModelFamily family = with_parts();
  const json config = complete_config(family, {{kParts, nullptr}});
  const ModelShape shape = shape_of(family, config, Settings());
  EXPECT_TRUE(shape.has("embed") && shape.has("head"));
  EXPECT_EQ(parts_text(shape), "");
  EXPECT_NO_THROW(require_loss(shape));
}

TEST(ModelParts, AreRefusedByOtherFamilies) {
  EXPECT_EQ(complaint_of_new(of_parts({"embed"})), "parts is no setting of this model");
  EXPECT_FALSE(complete_config(some_family(), {{kParts, {"embed"}}}).contains(kParts));
}

TEST(ModelParts, HaveALossWithBothEnds) {
  const auto complaint_with = [](const std::vector<std::string>& parts) {
    return complaint([&] { require_loss(new_shape(with_parts(), of_parts(parts))); });
  };
  EXPECT_EQ(complaint_with({}), "");
  EXPECT_EQ(complaint_with({"head", "layers=1:2", "embed"}), "");
  for (const char* end : {"embed", "head"})
    EXPECT_EQ(complaint_with({"layers=0:1", end}),
              "of this model there are layers=0:1, " + std::string(end) +
                  " alone: without embed and head it has no loss and continues no text");
}

// Seldom meant, and never of use.
TEST(Settings, ThatAreForAnotherTaskAreRefused) {
  const auto refused_by = [](Task task) {
    std::vector<std::string> words;
    ModelFamily family = some_family();
    family.task = task;
    const std::vector<std::function<void(Settings&)>> changes = {[](Settings& s) { s.seq_len = 8; },
                                                                 [](Settings& s) { s.bytes = true; },
                                                                 [](Settings& s) { s.loss_chunk = 8; },
                                                                 [](Settings& s) { s.dropout = 0.5; },
                                                                 [](Settings& s) { s.accumulate = "unit"; },
                                                                 [](Settings& s) { s.sample = "x"; },
                                                                 [](Settings& s) { s.augment = false; },
                                                                 [](Settings& s) { s.sync_bn = true; }};
    for (const auto& change : changes) {
      Settings settings;
      change(settings);
      try {
        refuse_of_other_task(family, settings);
      } catch (const Error& error) {
        words.push_back(error.problem().substr(0, error.problem().find(' ')));
      }
    }
    return words;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(refused_by(Task::kImages), ElementsAre("seq_len", "bytes", "loss_chunk",
                                                     "dropout", "accumulate", "sample"));
  EXPECT_THAT(refused_by(Task::kLanguage), ElementsAre("augment", "sync_bn"));
}

TEST(ModelForImages, HasOneTargetARowAndAKeyForItsClasses) {
  ModelFamily family = some_family();
  family.task = Task::kImages;
  family.keys = {.layers = "n_layer", .vocab = "n_inner", .image_size = "n_embd"};
  Settings settings;
  settings.vocab = 5;
  settings.model_config = {"n_embd=48"};
  const ModelShape shape = new_shape(family, settings);
  EXPECT_EQ(shape.seq_len, 1);
  EXPECT_EQ(shape.vocab(), 5);
  EXPECT_EQ(shape.image_size(), 48);
}

}  // namespace
}  // namespace zero::launcher::chosen_model_test
