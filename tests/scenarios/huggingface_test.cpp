// People who come with a model of Hugging Face, and leave with one.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/scenarios/model_folders.h"

namespace zero::scenarios::huggingface_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class HuggingFace : public ModelFolders {
 protected:
  State trained(int ranks, const std::string& folder, const std::string& out,
                const Words& flags = {}) {
    Words words = train_from(folder, out,
                             {"--deterministic", "--dump-state", path(out + "_state")});
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(ranks, words);
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
    told_ = outcome.out;
    const State state = read_state(path(out + "_state"));
    fs::remove_all(path(out + "_state"));
    return state;
  }

  double eval_of(int ranks, const std::string& folder, const std::string& data) {
    const Outcome outcome =
        run(ranks, verb("eval", {"--from", folder, "--data", data, "--seq-len=24",
                                 "--micro-batch=1", "--threads=1"}));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    const size_t at = outcome.out.find("loss ");
    return at == std::string::npos ? -1 : std::atof(&outcome.out[at + 5]);
  }

  std::string told_;  // by the last run
};

TEST_F(HuggingFace, TheFirstStepIsTransformersOwnOnAnyNumberOfRanks) {
  const std::string folder = copy("llama");
  const json expected = reference("llama")["training"];
  const State alone = trained(0, folder, "a", {"--steps=3"});
  const json first = metrics("a", "step").at(0);
  EXPECT_NEAR(first["loss"].get<double>(), expected["losses"][0].get<double>(), 2e-6);
  EXPECT_NEAR(first["grad_norm"].get<double>(),
              expected["gradient_norms"][0].get<double>(), 2e-5);
  expect_same(alone, trained(2, folder, "b", {"--steps=3"}));
  expect_same(alone, trained(4, folder, "c", {"--steps=3"}));
  EXPECT_THAT(files_in(path("c/source")),
              ::testing::Contains(::testing::Key("config.json")));
}

TEST_F(HuggingFace, ARunGoesOnWithoutTheFolder) {
  const State whole = trained(0, copy("llama"), "whole", {"--steps=6"});
  const std::string folder = copy("llama", "passing");
  trained(2, folder, "a", {"--steps=2"});
  EXPECT_THAT(told_, HasSubstr("weights of " + folder));
  fs::remove_all(folder);
  trained(0, folder, "a", {"--steps=4"});
  EXPECT_THAT(told_, HasSubstr("resumed step 2"));
  for (const auto& entry : fs::directory_iterator(path("a"))) {
    if (entry.path().filename() != "step_000000000004") fs::remove_all(entry);
  }
  expect_same(whole, trained(2, folder, "a", {"--steps=6"}));
}

TEST_F(HuggingFace, OtherLayoutsOfTheSameWeightsTrainTheSame) {
  const auto expect_same_training = [&](const std::string& plain,
                                        const std::string& other) {
    const State expected = trained(0, copy(plain), plain + "_run", {"--steps=2"});
    expect_same(expected, trained(0, copy(other), other + "_run", {"--steps=2"}));
  };
  expect_same_training("llama", "llama_sharded");
  EXPECT_THAT(told_, Not(HasSubstr("not read")));
  expect_same_training("gpt2", "gpt2_old_names");
  EXPECT_THAT(told_, ContainsRegex("not read, as nobody needs it: h.0.attn.bias"));
  expect_same_training("gpt_neox", "gpt_neox_old_buffers");
  EXPECT_THAT(told_, ContainsRegex("not read, .*layers.0.attention.*masked_bias"));
}

TEST_F(HuggingFace, EvalIsTransformersLoss) {
  const json numbers = reference("llama");
  const std::string folder = copy("llama");
  const std::string first = write_tokens("first.bin", numbers["samples"][0]);
  const std::string second = write_tokens("second.bin", numbers["samples"][1]);
  const double sum = 24 * (eval_of(0, folder, first) + eval_of(2, folder, second));
  EXPECT_NEAR(sum, numbers["loss_sum"].get<double>(), 1e-4);
}

TEST_F(HuggingFace, GenerateIsTransformersChoice) {
  for (const std::string name : {"llama", "gpt2_old_names"}) {
    const json greedy = reference(name == "llama" ? "llama" : "gpt2")["greedy"];
    std::string prompt, all;
    for (const int token : greedy["prompt"]) prompt += std::to_string(token) + " ";
    all = prompt;
    for (const int token : greedy["tokens"]) all += std::to_string(token) + " ";
    const Outcome outcome =
        run(name == "llama" ? 2 : 0,
            verb("generate", {"--from", copy(name), "--sample", prompt,
                              "--sample-temperature=0", "--sample-tokens=16"}));
    EXPECT_EQ(outcome.out + " ", all.substr(0, all.size() - 1) + "\n ") << outcome.err;
  }
}

TEST_F(HuggingFace, PlanTellsTheFamilyAndTheNumberOfParameters) {
  const Outcome outcome = run(0, verb("plan", {"--init-from", copy("gpt2")}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  int64_t count = 0;
  for (const auto& [name, values] : read_weights(path("gpt2")))
    count += std::ssize(values);
  const std::string digits = std::to_string(count);
  EXPECT_THAT(outcome.out, HasSubstr("gpt2: 2 layers, dim 24, 3 heads"));
  EXPECT_THAT(outcome.out, HasSubstr(digits.substr(0, digits.size() - 3) + "," +
                                     digits.substr(digits.size() - 3) + " parameters"));
}

// A run whose weights stay what they were, with a tokenizer.
class Export : public HuggingFace {
 protected:
  Export() {
    write("llama/tokenizer.json", std::string("{\"a\": \"\\u0000\"}\n\0\xff", 18));
    write("llama/merges.txt", "#version\r\na b\n");
    fs::copy(ZERO_REFERENCES "/llama", path("llama"));
    weights_ = read_weights(path("llama"));
    trained(0, path("llama"), "a", {"--steps=1", "--lr=0"});
  }

  Outcome exported(const std::string& to, const Words& flags = {},
                   const std::string& from = "a") {
    Words words = verb("export", {"--from", path(from), "--to", path(to)});
    words.insert(words.end(), flags.begin(), flags.end());
    return run(0, words);
  }

  std::map<std::string, std::vector<float>> weights_;
};

TEST_F(Export, GivesTheFolderBack) {
  trained(4, path("llama"), "of_four_ranks", {"--steps=1", "--lr=0"});
  EXPECT_EQ(exported("b", {}, "of_four_ranks").rc, 0);
  EXPECT_TRUE(read_weights(path("b")) == weights_);
  auto before = files_in(path("llama")), after = files_in(path("b"));
  for (const std::string name :
       {"tokenizer.json", "merges.txt", "generation_config.json"})
    EXPECT_TRUE(after[name] == before[name]) << name;
  EXPECT_TRUE(after.contains("model.safetensors"));
  json config = json::parse(after["config.json"]);
  for (const char* key : {"torch_dtype", "rope_theta", "rope_scaling"}) config.erase(key);
  EXPECT_EQ(config, json::parse(before["config.json"]));
  fs::remove_all(path("llama"));
  const State again = trained(0, path("b"), "again", {"--steps=1", "--lr=0"});
  EXPECT_EQ(std::stod(again.losses.at(0)),
            metrics("a", "step").at(0)["loss"].get<double>());
}

TEST_F(Export, KnowsEachKeyByOneName) {
  edit(copy("gpt2", "gpt2") + "/config.json", [](json& config) {
    config["num_attention_heads"] = config["n_head"];
    config.erase("n_head");
  });
  trained(0, path("gpt2"), "b", {"--steps=1", "--lr=0"});
  EXPECT_EQ(exported("c", {}, "b").rc, 0);
  const json config = json::parse(read_file(path("c/config.json")));
  EXPECT_TRUE(config.contains("n_head"));
  EXPECT_FALSE(config.contains("num_attention_heads"));
}

TEST_F(Export, HasTheTypeThatAConfigNamesInEitherWay) {
  edit(path("llama/config.json"), [](json& config) {
    config["dtype"] = nullptr;
    config["torch_dtype"] = "bfloat16";
  });
  trained(0, path("llama"), "b", {"--steps=1", "--lr=0"});
  EXPECT_EQ(exported("c", {}, "b").rc, 0);
  EXPECT_EQ(json::parse(read_file(path("c/config.json")))["dtype"], "bfloat16");
}

TEST_F(Export, InSmallFiles) {
  const Outcome outcome = exported("b", {"--max-shard-size=20KiB"});
  EXPECT_THAT(outcome.out, HasSubstr("5 file(s)")) << outcome.err;
  EXPECT_TRUE(read_weights(path("b")) == weights_);
  EXPECT_TRUE(has("b/model.safetensors.index.json"));
  EXPECT_FALSE(has("b/model.safetensors"));
}

TEST_F(Export, InBf16) {
  EXPECT_EQ(exported("b", {"--dtype=bf16"}).rc, 0);
  for (auto& [name, values] : weights_) {
    for (float& value : values) {
      const auto bits = std::bit_cast<uint32_t>(value);
      const uint32_t to_even = 0x7fff + (bits >> 16 & 1);
      value = std::bit_cast<float>((bits + to_even) & 0xffff0000);
    }
  }
  EXPECT_TRUE(read_weights(path("b")) == weights_);
  EXPECT_EQ(json::parse(read_file(path("b/config.json")))["dtype"], "bfloat16");
}

TEST_F(Export, InFp16) {
  EXPECT_EQ(exported("b", {"--dtype=fp16"}).rc, 0);
  const json config = json::parse(read_file(path("b/config.json")));
  EXPECT_EQ(config["dtype"], "float16");
  EXPECT_EQ(config["torch_dtype"], "float16");
  const std::string header = read_file(path("b/model.safetensors")).substr(0, 4096);
  EXPECT_THAT(header, AllOf(HasSubstr("\"F16\""), Not(HasSubstr("\"F32\""))));
}

TEST_F(Export, OfAModelThatCameFromNowhere) {
  ASSERT_EQ(run(0, train("new", {"--steps=1"})).rc, 0);
  const Outcome outcome = exported("b", {}, "new");
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no tokenizer's files"));
  const json config = json::parse(read_file(path("b/config.json")));
  EXPECT_EQ(config["dtype"], "float32");
  EXPECT_EQ(config["architectures"], json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["eos_token_id"], 256);
  const Words on_text = {"--from", path("b"), "--data", path("data.txt"), "--threads=1"};
  const Outcome loss = run(0, verb("eval", on_text));
  EXPECT_EQ(loss.rc, 0) << loss.err;
}

TEST_F(Export, LeavesAFolderThatIsThereAlone) {
  write("b/config.json", "mine");
  const auto before = files_in(path("b"));
  const Outcome outcome = exported("b");
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--replace"));
  EXPECT_TRUE(files_in(path("b")) == before);
}

TEST_F(Export, ReplacesAModelAndNothingElse) {
  EXPECT_EQ(exported("b", {"--max-shard-size=20KiB"}).rc, 0);
  write("b/README.md", "mine");
  EXPECT_EQ(exported("b", {"--replace"}).rc, 0);
  auto files = files_in(path("b"));
  EXPECT_EQ(files["README.md"], "mine");
  EXPECT_EQ(files.size(), 6u);  // config, generation, tokenizer, merges, weights
  EXPECT_TRUE(read_weights(path("b")) == weights_);
}

TEST_F(Export, KeepsOutOfRuns) {
  for (const std::string to : {"a", "a/step_000000000001"}) {
    const auto before = files_in(path(to));
    const Outcome outcome = exported(to, {"--replace"});
    EXPECT_EQ(outcome.rc, 2);
    EXPECT_THAT(outcome.err, HasSubstr("checkpoint"));
    EXPECT_TRUE(files_in(path(to)) == before);
  }
}

TEST_F(Export, OfADamagedCheckpointGivesNothing) {
  const std::string shard = "a/step_000000000001/shard_00000_of_00001.h5";
  const std::vector<float>& norm = weights_["model.norm.weight"];
  std::string bytes = read_file(path(shard));
  const std::string_view values(reinterpret_cast<const char*>(norm.data()), 16);
  bytes.at(bytes.find(values)) ^= 1;
  write(shard, bytes);
  const Outcome outcome = exported("b");
  EXPECT_EQ(outcome.rc, 5);
  EXPECT_THAT(outcome.err, HasSubstr("shard_00000"));
  for (const auto& entry : fs::directory_iterator(path("")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("b")) << entry;
}

TEST_F(Export, ThatIsKilledLeavesNoFolderOfThatName) {
  const Words large = {"--out",           path("large"),   "--data",
                       path("data.txt"),  "--steps=1",     "--global-batch=1",
                       "--micro-batch=1", "--layers=1",    "--dim=512",
                       "--heads=8",       "--vocab=30000", "--seq-len=8",
                       "--optimizer=sgd"};
  ASSERT_EQ(run(0, verb("train", large)).rc, 0);
  const auto program =
      start(0, verb("export", {"--from", path("large"), "--to", path("b")}));
  const auto has_begun = [&] {
    for (const auto& entry : fs::directory_iterator(path(""))) {
      if (entry.path().filename().string().starts_with("b.")) return true;
    }
    return false;
  };
  ASSERT_TRUE(wait_until(has_begun));
  program->send(SIGKILL);
  EXPECT_EQ(program->wait().rc, 128 + SIGKILL);
  EXPECT_FALSE(has("b"));
  EXPECT_EQ(exported("b", {}, "large").rc, 0);
}

}  // namespace
}  // namespace zero::scenarios::huggingface_test
