// People who train a part of a model first, and more of it later.
#include <filesystem>

#include "tests/scenarios/model_folders.h"

namespace zero::scenarios::unfreeze_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Unfreeze : public ModelFolders {
 protected:
  // A run of `steps`, in which the first layer joins behind step 3.
  State trained(int ranks, const std::string& out, int steps) {
    const Outcome outcome =
        run(ranks, train_from(path("llama"), out,
                              {"--deterministic", "--dump-state", path(out + "_state"),
                               "--unfreeze-at", "3:model.layers.0.*",
                               "--steps=" + std::to_string(steps)}));
    EXPECT_EQ(outcome.rc, 0) << outcome.err;
    told_ = outcome.out;
    const State state = read_state(path(out + "_state"));
    fs::remove_all(path(out + "_state"));
    return state;
  }

  std::string told_;
};

TEST_F(Unfreeze, ResumesBeforeAtAndBehindTheChange) {
  copy("llama");
  const State whole = trained(0, "whole", 5);
  EXPECT_THAT(told_, AllOf(HasSubstr("model.layers.0.* until step 3 is done"),
                           HasSubstr("trained from step 4 on: model.layers.0.*")));
  for (const int stopped : {2, 3, 4}) {
    const std::string out = "stopped_" + std::to_string(stopped);
    trained(stopped == 2 ? 2 : 0, out, stopped);
    expect_same(whole, trained(stopped == 4 ? 2 : 0, out, 5));
    EXPECT_EQ(told_.find("trained from") == told_.npos, stopped == 4) << told_;
  }
}

}  // namespace
}  // namespace zero::scenarios::unfreeze_test
