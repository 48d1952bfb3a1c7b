#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <vector>

#include "checkpoint/io.h"
#include "engine/watch/activity.h"
#include "launcher/huggingface/export.h"
#include "launcher/look/diff.h"
#include "launcher/look/inspect.h"
#include "launcher/look/verify.h"
#include "launcher/run/saved_run.h"
#include "tests/checkpoint/support.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::progress_test {
namespace {

using checkpoint::Kind;
using checkpoint::testing::make_tensor;
using checkpoint::testing::TestModel;
using ::testing::StartsWith;

// Verbs that read every byte tell how far they are.
class LookProgress : public checkpoint::testing::CheckpointTest {
 protected:
  LookProgress() {
    SavedRun saved;
    saved.model = {{"n_layer", 3}, {"n_embd", 64}, {"n_head", 4}, {"n_positions", 32}};
    saved.vocab = 257;
    step_ = save({make_tensor(Kind::kParam, "a", DType::kFp32, {1'000'000}),
                  make_tensor(Kind::kParam, "b", DType::kFp32, {3, 500'000})},
                 {.config = to_text(saved), .position = to_text(Progress())});
  }

  // What was told after each piece of work.
  static std::vector<Activity::Progress> told_while(const std::function<void()>& action) {
    static std::vector<Activity::Progress> told;
    static std::mutex mutex;  // threads work
    told.clear();
    checkpoint::set_work_listener([](int64_t bytes) {
      const std::lock_guard guard(mutex);
      Activity::sign_here(bytes);
      if (const auto progress = Activity::here().progress()) told.push_back(*progress);
    });
    action();
    checkpoint::set_work_listener(nullptr);
    EXPECT_FALSE(Activity::here().progress()) << "it is over";
    return told;
  }

  static void expect_all_told(const std::vector<Activity::Progress>& told,
                              const std::string& what) {
    ASSERT_GE(told.size(), 4u);
    EXPECT_THAT(told.front().what, StartsWith(what));
    EXPECT_LT(told.front().done_bytes, told.front().total_bytes / 2);
    EXPECT_GT(told.back().done_bytes, told.back().total_bytes * 9 / 10);
  }

  static constexpr int64_t kModelBytes = 4 * 2'500'000;
  std::string step_;
};

TEST_F(LookProgress, VerifyTellsOfAllFiles) {
  const auto told = told_while([&] { EXPECT_TRUE(verify_folder(step_).is_sound()); });
  expect_all_told(told, "verify step_");
  EXPECT_GT(told.back().total_bytes, kModelBytes);
}

TEST_F(LookProgress, InspectTellsWhereItReadsValues) {
  const auto look = [&](bool norms) { inspect_folder(run, {}, norms, some_models()); };
  const auto told = told_while([&] { look(true); });
  expect_all_told(told, "inspect");
  EXPECT_EQ(told.back().total_bytes, kModelBytes);
  EXPECT_TRUE(told_while([&] { look(false); }).empty());
}

TEST_F(LookProgress, DiffTellsOfBothSides) {
  const auto told = told_while([&] { diff_folders(run, run, {}, some_models()); });
  expect_all_told(told, "diff");
  EXPECT_EQ(told.back().total_bytes, 2 * kModelBytes);
}

TEST_F(LookProgress, ExportTellsOfReadingAndWriting) {
  ExportOptions options;
  options.from = {step_};
  options.to = run + "/../exported";
  options.dtype = DType::kBf16;
  ModelFamilies models = some_models();
  models[0].classes = {{"gpt2", "GPT2LMHeadModel", {{"n_layer", 2}}}};
  const auto told = told_while([&] { export_model(options, models); });
  expect_all_told(told, "export");
  EXPECT_EQ(told.back().total_bytes, kModelBytes + kModelBytes / 2);
}

}  // namespace
}  // namespace zero::launcher::progress_test
