// A checkpoint before the first step, and models that differ from theirs.
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::seed_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Seed : public Scenario {
 protected:
  // What train() asks for, of what makes the model.
  Words shape() const { return {"--layers=2", "--dim=32", "--heads=2", "--seq-len=16"}; }
  Outcome seed(const std::string& out, Words flags) {
    const Words sizes = shape();
    flags.insert(flags.end(), sizes.begin(), sizes.end());
    flags.insert(flags.end(), {"--out", path(out)});
    return run(0, verb("seed", flags));
  }
  State trained(int ranks, const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--steps=3", "--seed=5", "--deterministic", "--dump-state",
                               path(out + "_state")});
    const Outcome outcome = run(ranks, train(out, flags));
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
    told_ = outcome.out;
    const State state = read_state(path(out + "_state"));
    fs::remove_all(path(out + "_state"));
    return state;
  }
  void refused(const Outcome& outcome, const std::string& text) {
    EXPECT_EQ(outcome.rc, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
  std::string told_;
};

TEST_F(Seed, RunsFromItAreThoseWithoutIt) {
  const Outcome written = seed("seed", {"--seed=5"});
  EXPECT_EQ(written.rc, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("seed 5 of gpt2"));
  EXPECT_EQ(checkpoints("seed"), Words{"step_000000000000"});
  const State without = trained(1, "without", {});
  expect_same(without, trained(1, "one", {"--init-from", path("seed")}));
  EXPECT_THAT(told_, HasSubstr("weights of " + path("seed/step_000000000000")));
  expect_same(without, trained(2, "two", {"--init-from", path("seed")}));
  // Another seed's weights are other ones.
  EXPECT_EQ(seed("other", {"--seed=6"}).rc, 0);
  EXPECT_NE(trained(1, "three", {"--init-from", path("other")}).losses, without.losses);
}

TEST_F(Seed, ItsInitReportIsThatOfARun) {
  EXPECT_EQ(seed("seed", {"--seed=5", "--init-report", path("of_seed.json")}).rc, 0);
  trained(2, "run", {"--init-report", path("of_run.json")});
  const std::string report = read_file(path("of_seed.json"));
  EXPECT_THAT(report, HasSubstr("transformer.h.1."));
  EXPECT_EQ(report, read_file(path("of_run.json")));
}

TEST_F(Seed, OtherVerbsTakeIt) {
  EXPECT_EQ(seed("seed", {}).rc, 0);
  const Words from = {"--from", path("seed")};
  EXPECT_THAT(run(0, verb("verify", from)).out, HasSubstr("sound"));
  EXPECT_EQ(run(0, verb("export", {"--from", path("seed"), "--to", path("hf")})).rc, 0);
  EXPECT_TRUE(has("hf/model.safetensors"));
  const Outcome eval =
      run(2, verb("eval", {"--from", path("seed"), "--data", path("data.txt")}));
  EXPECT_THAT(eval.out, HasSubstr("eval step 0 | loss 5.")) << eval.err;
}

TEST_F(Seed, IsNoRunThatGoesOn) {
  EXPECT_EQ(seed("seed", {}).rc, 0);
  Words words = train("seed", {"--steps=1"});
  refused(run(0, words), "--init-from " + path("seed/step_000000000000"));
  refused(seed("seed", {}), "1 checkpoint(s) are there");
}

TEST_F(Seed, PartsOfAModelMakeTheWhole) {
  const std::string untied = "tie_word_embeddings=false";
  const auto seeded = [&](const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--seed=5", "--model-config", untied});
    EXPECT_EQ(seed(out, flags).rc, 0);
  };
  seeded("whole", {});
  seeded("first", {"--parts=embed,layers=0:1"});
  seeded("second", {"--parts", "layers=1:2,norm,head"});
  EXPECT_THAT(run(0, verb("inspect", {path("second")})).out,
              HasSubstr("; of that layers=1:2, norm, head"));
  EXPECT_EQ(run(0, verb("export", {path("whole"), "--to", path("a")})).rc, 0);
  const Outcome joined =
      run(0, verb("export", {path("first"), path("second"), "--to", path("b")}));
  EXPECT_THAT(joined.out, HasSubstr("second/step_000000000000 to ")) << joined.err;
  EXPECT_TRUE(read_file(path("a/model.safetensors")) ==
              read_file(path("b/model.safetensors")));
  // A part without an end is for other programs; a shallower model trains.
  const Words words =
      train("run", {"--init-from", path("b"), "--parts=embed,layers=1:2", "--steps=1"});
  refused(run(2, words), "there are embed, layers=1:2 alone");
  EXPECT_FALSE(has("run"));
  refused(run(0, verb("eval", {path("first"), "--data", path("data.txt")})),
          "there are embed, layers=0:1 alone");
  const std::string most = "--parts=embed,layers=1:2,norm,head";
  const State state = trained(2, "run", {"--init-from", path("b"), most});
  EXPECT_THAT(told_, HasSubstr("of that embed, layers=1:2, norm, head"));
  expect_same(state, trained(0, "other", {"--init-from", path("whole"), most}));
  EXPECT_THAT(told_, HasSubstr("in the checkpoint and not read: 12 (transformer.h.0."));
  const Outcome resumed = run(0, train("run", {"--steps=4", "--seed=5"}));
  EXPECT_EQ(resumed.rc, 2) << "parts say which model it is";
  EXPECT_THAT(resumed.err, HasSubstr("parts was"));
}

class InitFrom : public Seed {
 protected:
  InitFrom() { trained(2, "a", {"--save-every=2"}); }
};

TEST_F(InitFrom, AStepOfARunGivesItsWeightsAlone) {
  trained(1, "b", {"--init-from", path("a/step_000000000002"), "--lr=1e-9"});
  EXPECT_THAT(told_, HasSubstr("weights of " + path("a/step_000000000002")));
  const auto records = metrics("b", "step");
  EXPECT_EQ(records.at(0)["step"], 1);
  // The run goes on without what it started from.
  fs::rename(path("a"), path("gone"));
  trained(1, "b", {"--init-from", path("a/step_000000000002"), "--lr=1e-9"});
}

TEST_F(InitFrom, MissingAndExtraParametersAreToldOrRefused) {
  Words words = train("b", {"--init-from", path("a"), "--model-config", "n_layer=3"});
  std::erase(words, "--layers=2");
  words.push_back("--steps=1");
  const Outcome strict = run(0, words);
  EXPECT_EQ(strict.rc, 5) << strict.out;
  EXPECT_THAT(strict.err, HasSubstr("missing params/transformer.h.2.attn"));
  words.insert(words.end(), {"--allow-missing", "nothing", "transformer.h.2.*"});
  const Outcome allowed = run(2, words);
  EXPECT_EQ(allowed.rc, 0) << allowed.err;
  EXPECT_THAT(
      allowed.out,
      HasSubstr("missing in the checkpoint, so new: 12 (transformer.h.2.ln_1.weight, "));
}

TEST_F(InitFrom, EvalReadsAPartOfACheckpoint) {
  EXPECT_EQ(run(0, verb("eval", {"--from", path("a"), "--data", path("data.txt"),
                                 "--model-config", "n_layer=1"}))
                .rc,
            5);
  const Outcome outcome = run(
      2, verb("eval", {"--from", path("a"), "--data", path("data.txt"), "--model-config",
                       "n_layer=1", "--allow-extra", "transformer.h.1.*"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("in the checkpoint and not read: 12 ("));
}

}  // namespace
}  // namespace zero::scenarios::seed_test
