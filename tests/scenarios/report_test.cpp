// A page of what a run told.
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::report_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class Report : public Scenario {
 protected:
  Outcome report(const Words& flags) { return run(0, verb("report", flags)); }

  void train_a() {
    const Outcome outcome =
        run(2, train("a", {"--steps=5", "--eval-every=2", "--eval-data", path("data.txt"),
                           "--sample=the <b>", "--sample-tokens=4", "--save-every=3"}));
    ASSERT_EQ(outcome.rc, 0) << outcome.err;
  }
};

TEST_F(Report, OfARunThatEnded) {
  train_a();
  const Outcome outcome = report({"--from", path("a")});
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("report of 5 steps: " + path("a/report.html")));
  const std::string page = read_file(path("a/report.html"));
  for (const char* part :
       {"<h1>a</h1>", "gpt2, ", "2 ranks, fp32. Finished at", "<dd>5<small>of 5<",
        "<b>Loss</b>", "<b>Gradient norm</b>", "<b>Learning rate</b>",
        "<b>Tokens per second</b>", "<b>Free memory</b>", "key dots\">evaluation<",
        "<b>the &lt;b&gt;</b>", "<code>seq_len</code></td><td>16</td>",
        "<td>masters</td><td>host</td>", "<td>2 \u00d7 "}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("<b>Loss scale</b>"))) << "that is of fp16";
}

TEST_F(Report, IsMadeAnewWhileTheRunGoesOn) {
  auto program = start(0, train("a", {"--steps=1000000"}));
  ASSERT_TRUE(wait_for_step("a", 3));
  const std::string to = write("page.html", "mine");
  const Outcome refused = report({"--from", path("a"), "--to", to});
  EXPECT_EQ(refused.rc, 5);
  EXPECT_THAT(refused.err, HasSubstr("zero has not written"));
  EXPECT_EQ(read_file(to), "mine");
  std::filesystem::remove(to);
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(report({"--from", path("a"), "--to", to}).rc, 0);
  EXPECT_THAT(read_file(to), HasSubstr("No end is recorded"));
  EXPECT_FALSE(has("a/report.html"));
}

TEST_F(Report, OfARunThatWentOn) {
  train_a();
  fs::remove_all(path("a/step_000000000005"));
  run(0, train("a", {"--steps=6", "--lr=1e-3", "--override=lr"}));
  EXPECT_EQ(report({"--from", path("a")}).rc, 0);
  const std::string page = read_file(path("a/report.html"));
  EXPECT_THAT(page, HasSubstr("1 start from a checkpoint"));
  EXPECT_THAT(page, HasSubstr("lr 0.0003 \u2192 0.001"));
}

TEST_F(Report, WithoutARunThereIsNone) {
  const auto refused = [&](const Words& flags, int rc, const std::string& why) {
    const Outcome outcome = report(flags);
    EXPECT_EQ(outcome.rc, rc);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  write("text/data.txt", "");
  write("empty/metrics.jsonl", "hello\n");
  refused({"--from", path("text")}, 2, "no metrics.jsonl");
  refused({"--from", path("empty")}, 2, "there is no record of a run");
  write("run/metrics.jsonl", "{\"type\":\"run\"}\n");
  refused({"--from", path("run"), "--to", path("text")}, 5, "cannot be written");
  EXPECT_EQ(report({"--from", path("run")}).rc, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("run")), {}), 2)
      << "no temporary file is left";
}

}  // namespace
}  // namespace zero::scenarios::report_test
