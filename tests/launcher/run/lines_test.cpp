#include "launcher/run/lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>

#include "launcher/run/console.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::lines_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepLine, IsReadAtAGlance) {
  StepRecord record;
  record.step = 12;
  record.loss = 3.28261;
  record.grad_norm = 1.04;
  record.lr = 3e-4;
  record.num_targets = 27155;
  record.seconds = 0.709;
  EXPECT_EQ(step_line(record, 1000, 1680),
            "step    12/1000 | loss 3.2826 | norm 1.04 | lr 3.0e-04 | 709 ms | 38.3k "
            "tok/s | eta 28m");
  StepRecord at_once = record;
  at_once.seconds = 0;
  EXPECT_THAT(step_line(at_once, 1000, 1680), HasSubstr("| 0 ms | 0 tok/s |"));
  record.host_bytes_peak = int64_t{3} << 29;
  EXPECT_THAT(step_line(record, 1000, 1680),
              HasSubstr("38.3k tok/s | peak 1.5 GiB | eta 28m"));
  record.uses_gpu = true;
  record.shares = {.compute = 0.71, .waiting = 0.2, .weights = 0.22, .optimizer = 0.07};
  EXPECT_THAT(step_line(record, 1000, 1680),
              HasSubstr("| 709 ms (gpu 71% h2d 22% adam 7%) | 38.3k tok/s"));
  record.uses_gpu = false;
  EXPECT_THAT(step_line(record, 1000, 1680),
              HasSubstr("ms (cpu 71% gather 22% adam 7%)"));
  record.loss_scale = 65536;
  EXPECT_THAT(step_line(record, 1000, 1680), HasSubstr("eta 28m | scale 65536"));
  record.skipped = true;
  record.first_bad = "lm_head.weight";
  EXPECT_THAT(step_line(record, 1000, 1680),
              HasSubstr("skipped: the gradient of lm_head.weight is not finite"));
  record.loss = std::nan("");
  EXPECT_THAT(step_line(record, 1000, 1680),
              HasSubstr("skipped: the loss is not finite"));
}

TEST(StepLine, LeavesOutWhatMattersLeastWhereItIsNarrow) {
  StepRecord record;
  record.step = 12;
  record.loss = 3.28261;
  record.seconds = 0.709;
  record.host_bytes_peak = int64_t{3} << 29;
  record.shares = {.compute = 0.71};
  const std::string whole = step_line(record, 1000, 1680);
  const auto within = [&](size_t width) { return step_line(record, 1000, 1680, width); };
  EXPECT_EQ(within(whole.size()), whole);
  EXPECT_THAT(within(whole.size() - 1), HasSubstr("| 709 ms | 0 tok/s | peak 1.5 GiB |"));
  EXPECT_EQ(within(80),
            "step    12/1000 | loss 3.2826 | lr 0.0e+00 | 709 ms | 0 tok/s | eta 28m");
  EXPECT_EQ(within(40), "step    12/1000 | loss 3.2826 | eta 28m");
  record.loss_scale = 8;
  EXPECT_EQ(within(20), "step    12/1000 | loss 3.2826 | scale 8") << "never less";
}

// As of a run that diverges.
TEST(StepLine, LargeNumbersAreShort) {
  StepRecord record;
  record.loss = 123456789;
  record.grad_norm = 1e30;
  EXPECT_THAT(step_line(record, 10, 0), HasSubstr("loss 1.235e+08 | norm 1e+30 |"));
  record.loss = -std::nan("");
  EXPECT_THAT(step_line(record, 10, 0), HasSubstr("loss nan | norm"));
  const auto language = [](double loss) {
    return evaluation_text(loss, std::nullopt, Task::kLanguage, 4);
  };
  EXPECT_EQ(language(3), "loss 3.0000 | ppl 20.09");
  EXPECT_EQ(language(300), "loss 300.0000 | ppl 1.942e+130");
  EXPECT_EQ(language(1000), "loss 1000.0000 | ppl inf");
  EXPECT_EQ(language(-std::nan("")), "loss nan | ppl nan");
}

TEST(StepLine, ShortNumbers) {
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(999960), "1.0M");
  EXPECT_EQ(short_duration(59), "59s");
  EXPECT_EQ(short_duration(3569), "59m");
  EXPECT_EQ(short_duration(3570), "1h00m");
  EXPECT_EQ(short_duration(3700), "1h01m");
  EXPECT_EQ(short_duration(90000), "1d01h");
  EXPECT_EQ(short_duration(-1), "?");
  EXPECT_EQ(short_bytes(1536), "1.5 KiB");
}

TEST(Eta, FollowsTheLastSteps) {
  Eta eta;
  eta.add_step(2);
  EXPECT_EQ(eta.remaining_seconds(5, 15, 0), 20);
  for (int i = 0; i < 100; ++i) eta.add_step(1);
  EXPECT_NEAR(eta.remaining_seconds(5, 15, 0), 10, 0.01);
}

TEST(Eta, CountsTheEvaluationsThatAreLeft) {
  Eta eta;
  eta.add_step(1);
  EXPECT_EQ(eta.remaining_seconds(1, 10, 4), 9) << "nobody knows what one takes";
  eta.note_evaluation(50);
  eta.note_evaluation(100);
  EXPECT_EQ(eta.remaining_seconds(3, 10, 4), 307) << "at 4, 8 and 10";
  EXPECT_EQ(eta.remaining_seconds(4, 10, 4), 306);
  EXPECT_EQ(eta.remaining_seconds(5, 10, 4), 205);
  EXPECT_EQ(eta.remaining_seconds(8, 8, 4), 100) << "the last one, at 8";
  EXPECT_EQ(eta.remaining_seconds(3, 10, 0), 7);
}

TEST(Banner, TellsTheRun) {
  Settings settings;
  settings.out = "runs/x";
  BannerFacts facts;
  facts.hosts = {"b", "a", "b"};
  facts.cores = {"0 (was pinned to 1)", "0", "0"};
  facts.threads = 3;
  facts.adam_threads = {5, {}};
  facts.num_parameters = 10770816;
  facts.batch = {32, 4, 2, 0};
  facts.shape.seq_len = 256;
  facts.memory = {{"masters", "host", 1 << 20}, {"gather ring", "device", 1 << 20}};
  const std::string text = banner(settings, facts);
  EXPECT_THAT(text, HasSubstr("hosts    a, b (2 ranks)\n"));
  for (const char* part :
       {"10,770,816 parameters", "32 samples a step = 2 ranks x 4 passes x 4 samples",
        "8,192 tokens", "1.0 MiB  host    masters", "2.0 MiB  rank 0 in all",
        "rank 0: cores 0 (was pinned to 1), ranks 1-2: cores 0",
        "2 with 3 thread(s) each", "adam threads 5\n", "runs/x/metrics.jsonl"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Banner, TellsWhatIsKnownOfActivations) {
  BannerFacts facts;
  EXPECT_THAT(banner({}, facts), HasSubstr("rank 0 in all, activations apart\n"));
  facts.activations = 3 << 20;
  EXPECT_THAT(banner({}, facts),
              HasSubstr("rank 0 in all, and about 3.0 MiB of activations\n"));
}

TEST(NoFolder, SaysWhatIsThere) {
  const TempFolder folder;
  EXPECT_EQ(no_folder("--from", folder.path("a")),
            "--from names a folder that does not exist");
  EXPECT_EQ(no_folder("--from", folder.write("a", "")),
            "--from names a file, not a folder");
}

TEST(Banner, TellsWhatIsHeldOut) {
  Settings settings;
  BannerFacts facts;
  EXPECT_THAT(banner(settings, facts), Not(HasSubstr("held out")));
  settings.eval_fraction = 0.02;
  EXPECT_THAT(banner(settings, facts), HasSubstr("of fewer than 100 samples none are"));
  facts.num_held_out = 1000;
  EXPECT_THAT(banner(settings, facts),
              HasSubstr("  eval     the last 1,000 samples of the data, held out"));
}

TEST(Banner, TellsWhenTheRunSaves) {
  Settings settings;
  const auto saves = [&] { return banner(settings, {}); };
  EXPECT_THAT(saves(), HasSubstr("of the time), and at the end; that is"));
  settings.save_at_end = false;
  EXPECT_THAT(saves(), HasSubstr("of the time), not at the end; that is"));
  settings.save_every = {.steps = 5, .seconds = 0};
  EXPECT_THAT(saves(), HasSubstr("every 5 steps, not at the end; a crash costs"));
  settings.save_every = {.steps = 0, .seconds = 0};
  EXPECT_THAT(saves(), HasSubstr("a run that ends leaves no model"));
}

TEST(Banner, TellsWhatASaveCosts) {
  Settings settings;
  BannerFacts facts;
  facts.checkpoint_bytes = 3 << 20;
  EXPECT_THAT(banner(settings, facts), HasSubstr("3.0 MiB each, beside the steps\n"));
  settings.save = "sync";
  facts.save_seconds = 2.25;
  EXPECT_THAT(banner(settings, facts),
              HasSubstr("while steps wait (--save sync); the last one took 2.2 s\n"));
}

TEST(Banner, TellsWhereTheModelIsComputed) {
  Settings settings;
  BannerFacts facts;
  EXPECT_THAT(banner(settings, facts), HasSubstr("device   CPU: no GPU was found\n"));
  settings.tf32 = true;
  EXPECT_THAT(banner(settings, facts),
              HasSubstr("CPU: no GPU was found, for which tf32 is\n"));
  settings.device_memory = 1;
  EXPECT_THAT(banner(settings, facts), HasSubstr("which device_memory, tf32 are\n"));
  settings.device = "cpu";
  EXPECT_THAT(banner(settings, facts), HasSubstr("device   CPU\n"));
  facts.gpu = "a GPU, which does all";
  EXPECT_THAT(banner(settings, facts), HasSubstr("device   a GPU, which does all\n"));
}

TEST(Banner, TellsWhatThreadsWereMeasured) {
  EXPECT_EQ(describe_threads({2, {{1, 6.06e9}, {2, 11.7e9}}}),
            "2 (1: 6.1 GB/s, 2: 11.7 GB/s)");
  EXPECT_EQ(describe_threads({3, {}}), "3");
}

TEST(Console, NoFileTakesThePlaceOfAClosedStdout) {
  const int kept = dup(STDOUT_FILENO);
  close(STDOUT_FILENO);
  guard_streams();
  const int opened = open("/dev/null", O_RDONLY);
  EXPECT_NE(opened, STDOUT_FILENO);
  close(opened);
  dup2(kept, STDOUT_FILENO);
  close(kept);
}

TEST(Console, TerminalsSeeNoControlCharacters) {
  EXPECT_EQ(printable("a\tb\n\xc3\xa4"), "a\tb\n\xc3\xa4");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
}

}  // namespace
}  // namespace zero::launcher::lines_test
