// Folders and commands that cannot be what people meant: one clear answer, at once.
#include <algorithm>
#include <filesystem>

#include "tests/scenarios/model_folders.h"

namespace zero::scenarios::huggingface_refusals_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Refused : public ModelFolders {
 protected:
  Refused() { copy("llama"); }

  Outcome refused(int rc, const Words& words, const Words& parts, int ranks = 0) {
    const Outcome outcome = run(ranks, words);
    EXPECT_EQ(outcome.rc, rc) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_THAT(outcome.err, HasSubstr("  try:   "));
    const auto left = files_in(path("a"));
    EXPECT_TRUE(left.empty()) << left.begin()->first;
    return outcome;
  }

  Outcome refused_folder(int rc, const std::string& folder, const Words& parts,
                         int ranks = 0) {
    Words all = parts;
    all.push_back(folder);  // where
    return refused(rc, train_from(folder, "a", {"--steps=1"}), all, ranks);
  }

  // `parts` of what is said about llama with this config.json.
  void refuse_config(int rc, const std::string& text, const Words& parts) {
    write("llama/config.json", text);
    refused_folder(rc, path("llama"), parts);
  }
  void refuse_config_with(const json& changes, const Words& parts) {
    json config = json::parse(read_file(ZERO_REFERENCES "/llama/config.json"));
    config.update(changes);
    write("llama/config.json", config.dump());
    refused(2, train_from(path("llama"), "a", {"--steps=1"}), parts);
  }

  void refuse_flags(const Words& flags, const Words& parts) {
    Words words = train_from(path("llama"), "a", {"--steps=1"});
    words.insert(words.end(), flags.begin(), flags.end());
    refused(2, words, parts);
  }
};

TEST_F(Refused, WhatIsNoModelsFolder) {
  refused_folder(2, path("none"), {"--init-from names a folder that does not exist"}, 2);
  refused_folder(2, path("data.txt"), {"--init-from names a file, not a folder"});
  fs::create_directory(path("empty"));
  refused_folder(2, path("empty"), {"nor a config.json", "folder of Hugging Face"});
  write("adapter/adapter_config.json", "{}");
  refused_folder(2, path("adapter"), {"an adapter", "--adapter DIR"});
  fs::remove(path("llama/model.safetensors"));
  write("llama/pytorch_model.bin", "x");
  refused_folder(5, path("llama"), {"pickle", "pytorch_model.bin", "save_pretrained("});
}

TEST_F(Refused, BrokenConfigs) {
  const std::string whole = read_file(path("llama/config.json"));
  refuse_config(5, whole.substr(0, whole.size() / 2), {"is not JSON"});
  refuse_config(5, "[1]", {"no JSON object"});
  refuse_config(5, std::string(100'000, '['), {"nested too deeply"});
}

TEST_F(Refused, ModelsThatAreNotHere) {
  refuse_config_with({{"model_type", "mamba"}}, {"\"mamba\"", "gpt2, llama", "gpt_neox"});
  refuse_config_with({{"model_type", nullptr}}, {"no model_type", "llama"});
  refuse_config_with({{"architectures", {"LlamaForSequenceClassification"}}},
                     {"LlamaForSequenceClassification", "LlamaForCausalLM"});
  refuse_config_with({{"quantization_config", {{"bits", 4}}}}, {"quantized", "fp32"});
  refuse_config_with(
      {{"rope_parameters", {{"rope_type", "dynamic"}, {"rope_theta", 1e4}}}},
      {"\"dynamic\"", "default, linear, llama3 or yarn"});
}

TEST_F(Refused, DamagedWeights) {
  const std::string index = copy("llama_sharded") + "/model.safetensors.index.json";
  const std::string second = path("llama_sharded/model-00002-of-00003.safetensors");
  fs::rename(second, path("away"));
  refused_folder(5, path("llama_sharded"), {"model-00002-of-00003.safetensors"}, 2);
  fs::rename(path("away"), second);
  edit(index, [](json& all) {
    all["weight_map"]["lm_head.weight"] = "../llama/model.safetensors";
  });
  refused_folder(5, path("llama_sharded"), {"../llama/model.safetensors"});
  const std::string file = path("llama/model.safetensors"), whole = read_file(file);
  for (const size_t size : {whole.size() / 2, size_t{5}, size_t{0}}) {
    fs::resize_file(file, size);
    refused_folder(5, path("llama"), {"model.safetensors", "cut off"});
  }
  write("llama/model.safetensors", whole);
  edit_weights(path("llama"), [](json& header, std::string&) {
    header["model.norm.weight"]["data_offsets"] = {0, 128};
  });
  refused_folder(5, path("llama"), {"inside another tensor"});
}

TEST_F(Refused, LinksAreNamedWithTheirCure) {
  for (const std::string name : {"config.json", "model.safetensors"}) {
    fs::rename(path("llama/" + name), path(name));
    fs::create_symlink(path(name), path("llama/" + name));
    refused_folder(5, path("llama"), {name, "link", "cp -rL"});
    fs::rename(path(name), path("llama/" + name));
  }
}

TEST_F(Refused, WeightsThatDoNotFitTheConfig) {
  const std::string config = read_file(path("llama/config.json"));
  edit(path("llama/config.json"), [](json& all) { all["intermediate_size"] = 50; });
  const Outcome lies = refused_folder(
      5, path("llama"),
      {"6 tensor(s)",
       "layers.0.mlp.gate_proj.weight is (48, 32), the model's is (50, 32)",
       "layers.1.mlp.down_proj.weight is (32, 48)"},
      2);
  EXPECT_THAT(lies.err, Not(HasSubstr("q_proj")));
  write("llama/config.json", config);
  const std::string whole = read_file(path("llama/model.safetensors"));
  edit_weights(path("llama"), [](json& header, std::string& values) {
    header["lm_head.bias"] = {
        {"dtype", "F32"},
        {"shape", {1}},
        {"data_offsets", {values.size(), values.size() + sizeof(float)}}};
    values += std::string(sizeof(float), 0);
  });
  refused_folder(5, path("llama"), {"1 tensor(s)", "lm_head.bias is not in the model"});
  write("llama/model.safetensors", whole);
  edit_weights(path("llama"), [](json& header, std::string&) {
    header["model.norm.bias"] = header["model.norm.weight"];
    header.erase("model.norm.weight");
  });
  refused_folder(5, path("llama"), {"2 tensor(s)", "model.norm.weight is missing"});
}

TEST_F(Refused, ATiedPairThatDiffers) {
  edit_weights(copy("gpt2"), [](json& header, std::string& values) {
    json head = header["transformer.wte.weight"];
    const size_t begin = head["data_offsets"][0], end = head["data_offsets"][1];
    std::string other = values.substr(begin, end - begin);
    other.back() ^= 1;
    head["data_offsets"] = {values.size(), values.size() + other.size()};
    header["lm_head.weight"] = head;
    values += other;
  });
  refused_folder(5, path("gpt2"),
                 {"lm_head.weight", "tied to transformer.wte.weight", "other values"}, 2);
}

TEST_F(Refused, DataOfAnotherTokenizer) {
  const std::string beyond = write_tokens("beyond.bin", std::vector<int64_t>(100, 72));
  const auto with_data = [&](const std::string& name) {
    Words words = train_from(path("llama"), "a", {"--steps=1"});
    *std::ranges::find(words, path("tokens.bin")) = name;
    return words;
  };
  refused(6, with_data(beyond), {"72", "vocabulary of 64", "beyond"});
  refused(2, with_data(path("data.txt")), {"data.txt", "--tokenizer DIR"}, 2);
  refuse_flags({"--eval-data", path("data.txt")}, {"data.txt", "--tokenizer DIR"});
  const Words eval = {"--from", path("llama"), "--data", path("data.txt")};
  refused(2, verb("eval", eval), {"data.txt", "--tokenizer DIR"});
}

TEST_F(Refused, SettingsThatTheFolderTells) {
  refuse_flags({"--preset=gpt2-10m"}, {"own config tells the shape"});
  refuse_flags({"--layers=7"}, {"has layers 2, not 7", "leave out --layers"});
  refuse_flags({"--model=gptj"}, {"model is gptj", "llama", "leave --model out"});
  refuse_flags({"--model-config", "junk"}, {"\"junk\"", "KEY=VALUE"});
  refuse_flags({"--model-config", "rms_norm_epss=1"}, {"nearest: rms_norm_eps"});
  refused(2, train_from(copy("gpt2"), "a", {"--kv-heads=3"}), {"kv_heads is no setting"});
  Words longer = train_from(path("llama"), "a", {});
  *std::ranges::find(longer, "--seq-len=24") = "--seq-len=129";
  refused(2, longer, {"seq_len is 129", "128 positions"});
}

TEST_F(Refused, UsesOfAFolderThatAreNone) {
  refused(2, verb("generate", {"--from", path("llama"), "--sample", "hello"}),
          {"\"hello\"", "numbers below 64"});
  refused(2, verb("eval", {"--from", path("none"), "--data", path("tokens.bin")}),
          {"names a folder that does not exist", "Hugging Face"});
  refused(2, verb("plan", {"--init-from", path("none")}),
          {"names a folder that does not exist"});
  refused(2, verb("export", {"--from", path("llama"), "--to", path("a")}),
          {path("llama"), "Hugging Face", "a run's folder"});
}

}  // namespace
}  // namespace zero::scenarios::huggingface_refusals_test
