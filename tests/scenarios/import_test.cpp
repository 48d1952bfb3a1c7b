// Weights of HDF5 files that others wrote.
#include <cstdlib>
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::import_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Import : public Scenario {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0)
      GTEST_SKIP() << "h5py is not installed";
  }
  // A seed of this model, and what h5py makes of its `params` and `buffers`: a file
  // `out`.
  void rewrite_seed(const Words& model, const std::string& program) {
    model_ = model;
    Words words = {"--seed=5", "--out", path("seed")};
    words.insert(words.end(), model.begin(), model.end());
    ASSERT_EQ(run(0, verb("seed", words)).rc, 0);
    const std::string script = write(
        "write.py", "import h5py, numpy as np\nseed = h5py.File('" +
                        path("seed/step_000000000000/checkpoint.h5") +
                        "')\nparams = seed['params']\nbuffers = seed.get('buffers', {})\n"
                        "out = h5py.File('" +
                        path("out.h5") + "', 'w')\n" + program);
    ASSERT_EQ(std::system(("/usr/bin/python3 " + script).c_str()), 0);
  }
  // Changes in it.
  void rewrite(const std::string& program) {
    const std::string script =
        write("change.py", "import h5py, numpy as np\nout = h5py.File('" +
                               path("out.h5") + "', 'r+')\n" + program);
    ASSERT_EQ(std::system(("/usr/bin/python3 " + script).c_str()), 0);
  }
  Outcome import(Words flags, const std::string& to = "in") {
    flags.insert(flags.begin(), {path("out.h5"), "--to", path(to)});
    flags.insert(flags.end(), model_.begin(), model_.end());
    return run(0, verb("import", flags));
  }
  void expect_is_seed() {
    const Outcome same = run(0, verb("diff", {path("seed"), path("in")}));
    EXPECT_EQ(same.rc, 0) << same.out;
    EXPECT_EQ(checkpoints("in"), Words{"step_000000000000"});
  }
  const Words gpt2_ = {"--layers=2", "--dim=32", "--heads=2", "--seq-len=16"};

 private:
  Words model_;
};

TEST_F(Import, OtherNamesAndLayoutsBecomeTheSeed) {
  // Tied under both names, as torch's state_dict() has them.
  rewrite_seed(gpt2_, R"(
for name in params:
    data = params[name][()]
    name = name.replace('transformer.h.', 'model/layers/').replace('ln_f.weight', 'ln_f.gamma')
    wide = name.endswith('bias')
    out.create_dataset(name, data=data.astype('f8') if wide else data,
                       **(dict(compression='gzip', shuffle=True) if data.ndim > 1 else {}))
)");
  const Outcome done = import({"--map", "model.layers.*=h.*", "--map=*.gamma=*.weight"});
  EXPECT_EQ(done.rc, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("rounded from fp64 to fp32: 13 (h.0."),
                              HasSubstr("imported 28 tensors of gpt2 from ")));
  expect_is_seed();
  Words words = train("run", {"--init-from", path("in"), "--steps=1"});
  EXPECT_EQ(run(2, words).rc, 0);
}

TEST_F(Import, BuffersOfAModelComeToo) {
  rewrite_seed({"--model=regnet", "--preset=regnetx_tiny", "--vocab=3"}, R"(
for group in (params, buffers):
    for name in group:
        scale = 3 if name.endswith('running_mean') or name.endswith('running_var') else 1
        value = group[name][()] * scale
        out[group.name + '/' + name] = np.float64(value) if name == 'stem.1.running_mean' else value
out['exp_avg/stem.0.weight'] = np.zeros(3)
)");
  const Outcome done = import({});
  EXPECT_EQ(done.rc, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(HasSubstr("not read, as weights do not need it: 1 (exp_avg/stem"),
                    HasSubstr("rounded from fp64 to fp32: 1 (stem.1.running_mean)")));
  const Outcome other = run(0, verb("diff", {path("seed"), path("in"), "--json"}));
  EXPECT_EQ(other.rc, 1);
  EXPECT_THAT(other.out, HasSubstr("running_var"));
  EXPECT_EQ(run(0, verb("verify", {path("in")})).rc, 0);
  rewrite("out['buffers/stem.1.running_var'][0] = np.nan");
  const Outcome infinite = import({}, "other");
  EXPECT_EQ(infinite.rc, 5) << infinite.out;
  EXPECT_THAT(infinite.err,
              AllOf(HasSubstr("stem.1.running_var"), HasSubstr("not finite in fp32")));
}

TEST_F(Import, WhatDiffersIsToldAtOnceAndNothingIsWritten) {
  rewrite_seed(gpt2_, R"(
for name in params:
    data = params[name][()]
    if name == 'transformer.wpe.weight': data = data.T
    if name == 'transformer.ln_f.bias': data = data.astype('i8')
    if name == 'lm_head.weight': data = data + 1
    if name != 'transformer.h.0.ln_1.bias': out[name] = data
for i in range(20): out[f'extra{i}'] = np.float32(0)
out['more'] = np.float32(0)
)");
  const Outcome refused = import({});
  EXPECT_EQ(refused.rc, 5) << refused.out;
  EXPECT_THAT(
      refused.err,
      AllOf(HasSubstr("24 tensor(s) do not fit the model:"),
            HasSubstr("transformer.wpe.weight is (32, 16), the model's is (16, 32)"),
            HasSubstr("transformer.h.0.ln_1.bias is missing"),
            HasSubstr("transformer.ln_f.bias is int64, the model's is fp32"),
            HasSubstr("more is not in the model")));
  const Outcome unused = import({"--map", "x.*=y.*", "more=less"});
  EXPECT_EQ(unused.rc, 2) << unused.out;
  EXPECT_THAT(unused.err, HasSubstr("no name of a dataset is left for: x.*=y.*"));
  EXPECT_FALSE(has("in"));
}

TEST_F(Import, ValuesMustFit) {
  rewrite_seed(gpt2_, R"(
for name in params: out[name] = params[name][()].astype('f8')
out['lm_head.weight'][-1] += 1
out['transformer.ln_f.bias'][3] = 1e300
)");
  const Outcome untied = import({});
  EXPECT_EQ(untied.rc, 5);
  EXPECT_THAT(untied.err, HasSubstr("it is tied to transformer.wte.weight"));
  EXPECT_FALSE(has("in"));
  const Outcome infinite = import({"--model-config", "tie_word_embeddings=false"});
  EXPECT_EQ(infinite.rc, 5);
  EXPECT_THAT(infinite.err,
              AllOf(HasSubstr("transformer.ln_f.bias"), HasSubstr("not finite in fp32")));
  EXPECT_FALSE(has("in")) << "the new folder stays";
}

}  // namespace
}  // namespace zero::scenarios::import_test
