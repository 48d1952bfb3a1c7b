// People who train adapters of a model, with peft before or behind them.
#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint/reader.h"
#include "checkpoint/safetensors.h"
#include "tests/scenarios/model_folders.h"

namespace zero::scenarios::lora_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Of tests/references/adapters: what peft made and computed.
std::string adapter(const std::string& name) {
  return ZERO_REFERENCES "/adapters/" + name;
}

class Lora : public ModelFolders {
 protected:
  Outcome done(int ranks, const Words& words) {
    const Outcome outcome = run(ranks, words);
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
    return outcome;
  }
  void refused(int code, const Words& words, const std::string& culprit) {
    const Outcome outcome = run(0, words);
    EXPECT_EQ(outcome.rc, code) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(culprit));
  }
  State trained(int ranks, const std::string& out, const Words& flags) {
    Words words = train_from(path("llama"), out,
                             {"--deterministic", "--dump-state", path(out + "_state")});
    words.insert(words.end(), flags.begin(), flags.end());
    told_ = done(ranks, words).out;
    const State state = read_state(path(out + "_state"));
    fs::remove_all(path(out + "_state"));
    return state;
  }
  double eval_of(const Words& from) {
    Words words = {"--data", path("tokens.bin"), "--seq-len=24", "--threads=1"};
    words.insert(words.begin(), from.begin(), from.end());
    const Outcome outcome = done(0, verb("eval", words));
    told_ = outcome.err;
    return std::stod(outcome.out.substr(outcome.out.find("loss ") + 5));
  }

  std::string told_;  // by the last training, or on stderr by the last evaluation
};

TEST_F(Lora, TheFirstStepIsPeftsOwnOnAnyNumberOfRanks) {
  for (const std::string name : {"gpt2", "llama", "qwen3"}) {
    const json expected = json::parse(read_file(adapter(name) + "/reference.json"));
    done(name == "llama" ? 2 : 0, train_from(copy(name), name + "_run",
                                             {"--steps=1", "--adapter", adapter(name)}));
    const json first = metrics(name + "_run", "step").at(0);
    EXPECT_NEAR(first["loss"].get<double>(),
                expected["training"]["losses"][0].get<double>(), 2e-6);
    EXPECT_NEAR(first["grad_norm"].get<double>(),
                expected["training"]["gradient_norms"][0].get<double>(), 2e-6);
  }
}

TEST_F(Lora, GoesOnAsIfItHadNotStoppedAndLeavesByBothDoors) {
  copy("llama");
  const Words flags = {"--lora", "r=4,alpha=8,dropout=0.1,modules-to-save=model.norm",
                       "--lr=1e-2"};
  const auto steps = [&](int count) {
    Words words = flags;
    words.push_back("--steps=" + std::to_string(count));
    return words;
  };
  const State whole = trained(0, "whole", steps(4));
  EXPECT_THAT(told_,
              AllOf(HasSubstr("adapters of rank 4"), HasSubstr("of them trained")));
  trained(2, "a", steps(2));
  expect_same(whole, trained(0, "a", steps(4)));

  const double loss = eval_of({path("a")});
  done(0, verb("export", {path("a"), "--merge", "--to", path("merged")}));
  EXPECT_NEAR(eval_of({path("merged")}), loss, 2e-6);
  EXPECT_FALSE(json::parse(read_file(path("merged/config.json"))).contains("lora"));
  const auto merged = read_weights(path("merged")), base = read_weights(path("llama"));
  ASSERT_EQ(merged.size(), base.size());
  for (const auto& [name, values] : base) {
    const bool stays = name.find("layernorm") != name.npos || name == "lm_head.weight" ||
                       name == "model.embed_tokens.weight";
    EXPECT_EQ(merged.at(name) == values, stays) << name;
  }

  done(0, verb("export", {path("a"), "--adapter", "--to", path("alone")}));
  const auto alone = read_weights(path("alone"), checkpoint::kAdapterFile);
  EXPECT_EQ(alone.size(), 2u * 7 * 2 + 1);
  for (const auto& [name, values] : alone)
    EXPECT_TRUE(name.starts_with("base_model.model.model.")) << name;
  EXPECT_NEAR(eval_of({path("llama"), "--adapter", path("alone")}), loss, 1e-9);
  // On top of a run's checkpoint of the same weights, too.
  done(0, train_from(path("llama"), "plain", {"--steps=1", "--lr=0"}));
  EXPECT_NEAR(eval_of({path("plain"), "--adapter", path("alone")}), loss, 1e-9);
  EXPECT_THAT(told_, Not(HasSubstr("missing")));
  const json config = json::parse(read_file(path("alone/adapter_config.json")));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["modules_to_save"], json({"model.norm"}));
  const Words text = {"--sample", "1 2 3", "--sample-temperature=0", "--sample-tokens=9"};
  const auto told = [&](Words words) {
    words.insert(words.end(), text.begin(), text.end());
    return done(0, verb("generate", words)).out;
  };
  EXPECT_EQ(told({path("merged")}), told({path("llama"), "--adapter", path("alone")}));
  EXPECT_EQ(told({path("merged")}), told({path("a")}));
}

// Of the folder's own type nothing is rounded; of another one once, where that is asked.
TEST_F(Lora, HoldsFrozenWeightsInFewBytes) {
  const std::string base = copy("llama");
  done(0, train_from(base, "plain", {"--steps=1", "--lr=0"}));
  done(0, verb("export", {path("plain"), "--dtype=bf16", "--to", path("bf16")}));
  const auto weights = read_weights(path("bf16"));
  fs::remove_all(base);
  fs::copy(path("bf16"), base);
  const Words flags = {"--lora=r=2,targets=q_proj", "--dtype=bf16", "--lr=1e-2"};
  const auto with = [&](Words more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  const State whole = trained(0, "a", with({"--steps=4", "--frozen-dtype=fp32"}));
  EXPECT_THAT(told_, AllOf(HasSubstr("bf16 copy"), Not(HasSubstr("in bf16 alone"))));
  expect_same(whole, trained(2, "b", with({"--steps=4"})));
  EXPECT_THAT(told_, AllOf(HasSubstr("held in bf16 alone"), HasSubstr("frozen weights"),
                           Not(HasSubstr("rounded"))));
  trained(4, "c", with({"--steps=2", "--shard-over=2"}));
  expect_same(whole, trained(0, "c", with({"--steps=4"})));
  EXPECT_THAT(told_, HasSubstr("held in bf16 alone"));
  // What computes in fp32 makes the same of them.
  const Words in_fp32 = {"--lora=r=2,targets=q_proj", "--lr=1e-2", "--steps=3"};
  const State decoded = trained(2, "e", in_fp32);
  EXPECT_THAT(told_, AllOf(HasSubstr("held in bf16 alone"), Not(HasSubstr("rounded"))));
  Words with_masters = in_fp32;
  with_masters.push_back("--frozen-dtype=fp32");
  expect_same(decoded, trained(0, "f", with_masters));
  fs::remove_all(base);
  copy("llama");  // in fp32
  trained(0, "d", with({"--steps=1", "--frozen-dtype=bf16"}));
  EXPECT_THAT(told_, HasSubstr("frozen weights are rounded to bf16, which saves"));
  // A checkpoint has what was made of them, which is not rounded again.
  const State in_blocks = trained(2, "g", with({"--steps=3", "--frozen-dtype=int8"}));
  EXPECT_THAT(told_, HasSubstr("frozen weights are rounded to int8, which saves"));
  trained(0, "h", with({"--steps=1", "--frozen-dtype=int8"}));
  expect_same(in_blocks, trained(4, "h", with({"--steps=3"})));
  EXPECT_THAT(told_, AllOf(HasSubstr("held in int8 alone"), Not(HasSubstr("rounded"))));
  done(0, verb("export", {path("b"), "--merge", "--to", path("merged")}));
  const auto merged = read_weights(path("merged"));
  for (const auto& [name, values] : weights) {
    if (name.find("q_proj") != name.npos) continue;
    EXPECT_EQ(merged.at(name), values) << name;
  }
}

TEST_F(Lora, SavesAdaptersAlone) {
  const std::string base = copy("llama"), moved = base + "_moved";
  const auto steps = [&](int count, Words flags = {"--save-frozen=false"}) {
    flags.insert(flags.begin(), {"--lora=r=2,targets=q_proj", "--lr=1e-2",
                                 "--steps=" + std::to_string(count)});
    return flags;
  };
  const State whole = trained(0, "whole", steps(4, {}));
  trained(2, "a", steps(2));
  expect_same(whole, trained(0, "a", steps(4)));
  const auto saved = [&](const std::string& step) {
    const checkpoint::Reader reader(path(step));
    std::set<std::string> fqns;
    for (const checkpoint::StoredTensor& tensor : reader.manifest().tensors)
      fqns.insert(tensor.fqn);
    return fqns;
  };
  const std::set<std::string> adapters = saved("a/step_000000000004");
  EXPECT_EQ(adapters.size(), 4u);
  for (const std::string& fqn : adapters) EXPECT_THAT(fqn, HasSubstr(".lora_"));
  EXPECT_EQ(eval_of({path("a")}), eval_of({path("whole")}));
  done(0, verb("export", {path("a"), "--adapter", "--to", path("alone")}));
  EXPECT_EQ(eval_of({base, "--adapter", path("alone")}), eval_of({path("a")}));
  refused(2, verb("export", {path("a"), "--merge", "--to", path("merged")}),
          "merge that into " + base);
  done(2, train_from(path("a"), "b", {"--steps=1", "--dtype=bf16"}));
  eval_of({path("b")});

  // One that has saved all so far; on top of another run; adapters that are frozen, too.
  done(0, train_from(base, "whole", steps(5)));
  EXPECT_EQ(saved("whole/step_000000000005"), adapters);
  done(0, train_from(path("whole"), "k", {"--steps=1", "--save-frozen=false"}));
  EXPECT_EQ(saved("k/step_000000000001"), adapters);
  done(0, train_from(path("whole"), "k", {"--steps=2", "--save-frozen=false"}));
  done(0, train_from(base, "e",
                     steps(1, {"--save-frozen=false", "--freeze=*.lora_A.weight"})));
  EXPECT_EQ(saved("e/step_000000000001"), adapters);

  fs::rename(base, moved);
  refused(5, train_from(base, "a", steps(5)), "where --init-from DIR says");
  done(0, train_from(moved, "a", steps(5)));
  done(0, verb("eval", {path("a"), "--data", path("tokens.bin"), "--seq-len=24"}));
  std::string weights = read_file(moved + "/model.safetensors");
  weights[weights.size() - 3] ^= 1;
  std::ofstream(moved + "/model.safetensors") << weights;
  refused(5, train_from(moved, "a", steps(6)), "is not what the run was trained with");
  refused(5, verb("eval", {path("a"), "--data", path("tokens.bin"), "--seq-len=24"}),
          "is not what the run was trained with");
  refused(
      2, train_from(moved, "c", steps(1, {"--save-frozen=false", "--frozen-dtype=int8"})),
      "--frozen-dtype int8, which rounds");
  refused(2,
          verb("train", {"--data", path("tokens.bin"), "--out", path("d"), "--vocab=64",
                         "--save-frozen=false"}),
          "--save-frozen=false without --init-from");
}

TEST_F(Lora, SavesWhatWasTrainedBeforeItWasFrozen) {
  const std::string base = copy("llama");
  done(0, train_from(base, "a", {"--steps=1", "--lr=1e-2", "--freeze=lm_head.weight"}));
  done(0, train_from(base, "a",
                     {"--steps=2", "--lr=1e-2", "--save-frozen=false", "--resume=must",
                      "--override", "freeze", "--freeze=model.norm.weight"}));
  const auto has = [&](const std::string& step, const std::string& fqn) {
    return checkpoint::Reader(path(step)).manifest().find(checkpoint::Kind::kParam, fqn) !=
           nullptr;
  };
  EXPECT_TRUE(has("a/step_000000000002", "model.norm.weight"));

  const Words again = {"--lora=r=2,targets=q_proj", "--save-frozen=false",
                       "--save-every=1", "--keep=0", "--steps=2"};
  done(0, train_from(base, "b", again));
  EXPECT_FALSE(has("b/step_000000000002", "model.norm.weight"));
  fs::resize_file(base + "/model.safetensors", 100);
  Words more = again;
  more.back() = "--steps=3";
  const Outcome outcome = run(0, train_from(base, "b", more));
  EXPECT_EQ(outcome.rc, 5);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("which are in no checkpoint"), HasSubstr(base)));
  EXPECT_THAT(outcome.err, Not(HasSubstr("passed over")));
}

TEST_F(Lora, EvaluatesPeftsAdapters) {
  for (const std::string name : {"gpt2", "llama"}) {
    const json reference = ModelFolders::reference(name);
    double sum = 0;
    copy(name);
    for (const json& sample : reference["samples"]) {
      const std::string data = write_tokens("sample.bin", sample);
      const Outcome outcome =
          done(name == "gpt2" ? 2 : 0,
               verb("eval", {path(name), "--adapter", adapter(name), "--data", data,
                             "--seq-len=24", "--micro-batch=1", "--threads=1"}));
      sum += 24 * std::stod(outcome.out.substr(outcome.out.find("loss ") + 5));
    }
    const json peft = json::parse(read_file(adapter(name) + "/reference.json"));
    EXPECT_NEAR(sum, peft["loss_sum"].get<double>(), 1e-4);
  }
}

// A folder of peft has them under their own names, and is for both of its generations.
TEST_F(Lora, NamesTheHeadAsEachTransformersDoes) {
  copy("gpt_neox");
  done(0, train_from(path("gpt_neox"), "a",
                     {"--steps=1", "--lr=1e-2", "--lora=r=2,modules-to-save=embed_out"}));
  done(0, verb("export", {path("a"), "--adapter", "--to", path("alone")}));
  const auto weights = read_weights(path("alone"), checkpoint::kAdapterFile);
  EXPECT_EQ(weights.at("base_model.model.lm_head.weight"),
            weights.at("base_model.model.embed_out.weight"));
  edit(path("alone/adapter_config.json"), [](json& config) {
    EXPECT_EQ(config["modules_to_save"], json({"embed_out", "lm_head"}));
    config["modules_to_save"] = {"lm_head"};
  });
  EXPECT_NEAR(eval_of({path("gpt_neox"), "--adapter", path("alone")}),
              eval_of({path("a")}), 1e-9);
}

// Trained if modules_to_save names it as peft does, frozen otherwise.
TEST_F(Lora, KeepsWhatCameBesideTheFactors) {
  copy("llama");
  done(0, train_from(path("llama"), "a",
                     {"--steps=1", "--lr=1e-2", "--lora=r=2,modules-to-save=*norm"}));
  done(0, verb("export", {path("a"), "--adapter", "--to", path("mine")}));
  const auto came = read_weights(path("mine"), checkpoint::kAdapterFile);
  for (const bool is_trained : {true, false}) {
    const json named = is_trained ? json({"norm"}) : json();
    edit(path("mine/adapter_config.json"),
         [&](json& config) { config["modules_to_save"] = named; });
    const std::string out = is_trained ? "trained" : "frozen";
    done(0, train_from(path("llama"), out,
                       {"--steps=1", "--lr=1e-2", "--adapter", path("mine")}));
    done(0, verb("export", {path(out), "--adapter", "--to", path(out + "_alone")}));
    const auto left = read_weights(path(out + "_alone"), checkpoint::kAdapterFile);
    ASSERT_EQ(left.size(), came.size());
    for (const auto& [name, values] : came) {
      if (name.find(".lora_") != name.npos) continue;
      EXPECT_EQ(left.at(name) != values, is_trained) << name;
    }
    const json config = json::parse(read_file(path(out + "_alone/adapter_config.json")));
    EXPECT_EQ(config["modules_to_save"].is_null(), !is_trained);
    if (!is_trained) continue;
    std::string same = "--lora=r=2,modules-to-save=norm,targets=";
    for (const json& name : config["target_modules"])
      same += (same.ends_with('=') ? "" : "+") + name.get<std::string>();
    done(0, train_from(path(out), "again", {"--steps=1", same}));
  }
}

TEST_F(Lora, SaysWhatDoesNotFit) {
  copy("llama");
  const auto train_with = [&](const Words& flags) {
    return train_from(path("llama"), "a", flags);
  };
  refused(2, train_with({"--lora", "r=8,targets=none"}),
          "'none' matches no linear layer");
  refused(2, train_with({"--lora", "rank=8"}), "targets=q_proj+v_proj");
  refused(2, train_with({"--lora", "r=8", "--adapter", adapter("llama")}), "exclude");
  refused(2, train_with({"--adapter", path("llama")}), "it holds no adapter");
  refused(2, train("b", {"--adapter", adapter("llama")}), "--init-from DIR");
  refused(2, train_with({"--adapter", adapter("gpt2")}), "matches no");
  fs::copy(adapter("llama"), path("mine"));
  edit(path("mine/adapter_config.json"), [](json& config) {
    config["target_modules"] = {"q_proj", "o_proj"};
  });
  refused(5, train_with({"--adapter", path("mine")}), "o_proj.lora_A.weight is missing");
  done(0, train_with({"--steps=1", "--lora", "r=2"}));
  refused(2, train_with({"--steps=2", "--lora", "r=3"}), "other adapters");
  refused(2, verb("export", {path("a"), "--to", path("b")}), "--merge");
  refused(2, verb("export", {path("a"), "--to", path("b"), "--merge", "--adapter"}),
          "exclude");
  refused(2,
          verb("eval",
               {path("a"), "--adapter", adapter("llama"), "--data", path("tokens.bin")}),
          "adapters already");
  done(0, train_from(path("llama"), "plain", {"--steps=1"}));
  refused(2, verb("export", {path("plain"), "--to", path("b"), "--merge"}),
          "no adapters");
  EXPECT_FALSE(has("b"));
}

}  // namespace
}  // namespace zero::scenarios::lora_test
