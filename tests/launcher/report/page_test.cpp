#include "launcher/report/page.h"

#include <gmock/gmock.h>

#include <sstream>

#include "launcher/settings/setting_table.h"

namespace zero::launcher::page_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

json some_start() {
  Settings settings;
  settings.steps = 1000;
  settings.lr = 0.125;
  settings.data = {"a.txt", "b.txt"};
  settings.sample = "<script>alert(1)</script>";
  return {{"type", "run"},
          {"world",
           {{"size", 4},
            {"threads", 3},
            {"adam_threads", 2},
            {"parameters", 7680},
            {"device", "CPU"},
            {"hosts", {{"left", 3}, {"right", 1}}}}},
          {"family", "gpt2"},
          {"memory",
           {{{"owner", "masters"}, {"tier", "host"}, {"bytes", 2048}},
            {{"owner", "exp_avg"}, {"tier", "host"}, {"bytes", 1024}}}},
          {"activations", 4096},
          {"config", to_json(settings)},
          {"wall", 1795425947.5}};
}

json step(int64_t number) {
  return {{"type", "step"},
          {"step", number},
          {"loss", 3.25},
          {"grad_norm", 1.0},
          {"lr", 0.125},
          {"tokens", 1500},
          {"seconds", 2.0},
          {"tokens_per_second", 750.0},
          {"host_bytes_free", int64_t{8} << 30}};
}

std::string page_of(const std::vector<json>& records, const std::string& name = "a run") {
  std::stringstream log;
  for (const json& record : records) log << record.dump() << '\n';
  return report_page(read_history(log), name);
}

TEST(ReportPage, ABatchThatWasLeftOutIsNoLoss) {
  json skipped = step(1);
  skipped["loss"] = nullptr;
  skipped["skipped"] = true;
  EXPECT_THAT(page_of({some_start(), step(1), skipped}),
              HasSubstr("<dt>training loss</dt><dd>3.25<small>"));
  std::vector<json> many = {some_start()};
  for (int64_t i = 1; i <= 100; ++i) many.push_back(step(i));
  skipped["step"] = 100;
  many.push_back(skipped);
  EXPECT_THAT(page_of(many), HasSubstr("<dt>training loss</dt><dd>3.25<small>"));
}

TEST(ReportPage, PicturesAreNoTokens) {
  json start = some_start();
  start["task"] = "images";
  EXPECT_THAT(page_of({start, step(1)}),
              AllOf(HasSubstr("cross entropy per image"), Not(HasSubstr("per token"))));
}

TEST(ReportPage, BeginsWithWhatMattersMost) {
  const std::string page =
      page_of({some_start(),
               step(1),
               step(2),
               {{"type", "eval"}, {"step", 2}, {"loss", 2.75}},
               {{"type", "end"}, {"step", 2}, {"wall", 1795425960.0}}});
  EXPECT_THAT(page, HasSubstr("gpt2, 7,680 parameters, 4 ranks, fp32. Finished at "
                              "2026-11-23 09:26 UTC."));
  EXPECT_THAT(page, HasSubstr("<dt>steps</dt><dd>2<small>of 1,000</small>"));
  EXPECT_THAT(page, HasSubstr("<dt>tokens</dt><dd>3.0k</dd>"));
  EXPECT_THAT(page, HasSubstr("<dt>time in steps</dt><dd>4s</dd>"));
  EXPECT_THAT(page, HasSubstr("<dt>tokens/s</dt><dd>750<"));
  EXPECT_THAT(page, HasSubstr("<dt>training loss</dt><dd>3.25<"));
  EXPECT_THAT(page,
              HasSubstr("<dt>evaluation loss</dt><dd>2.75<small>at step 2</small>"));
}

// One noisy step is no result.
TEST(ReportPage, OfALongRunTheLossIsAnAverage) {
  std::vector<json> records = {some_start()};
  for (int64_t number = 1; number <= 100; ++number) records.push_back(step(number));
  records.back()["loss"] = 9.25;  // the average: 3.25 + 6 * 0.5 / (1 - 0.5^100)
  const std::string page = page_of(records);
  EXPECT_THAT(page, HasSubstr("<dt>training loss</dt><dd>6.25<small>average of about 2 "
                              "steps</small>"));
  EXPECT_THAT(page, HasSubstr(">average of about 2 steps (exponential)</span>"));
  records.back()["loss"] = nullptr;
  EXPECT_THAT(page_of(records), HasSubstr("<dt>training loss</dt><dd>not finite<small>of "
                                          "the last step"));
}

History history_of(const std::vector<json>& records) {
  std::stringstream log;
  for (const json& record : records) log << record.dump() << '\n';
  return read_history(log);
}

TEST(ComparisonPage, HasALineAndARowForEachRun) {
  json other = some_start();
  other["config"]["lr"] = 0.25;
  const std::string page = comparison_page(
      {{"a", history_of({some_start(), step(1), step(2)})},
       {"<b>",
        history_of({other, step(1), {{"type", "eval"}, {"step", 1}, {"loss", 2.5}}})}});
  EXPECT_THAT(page, HasSubstr("<h1>a and &lt;b&gt;</h1>"));
  for (const char* line : {"class=\"line run0\"", "class=\"line run1\""})
    EXPECT_THAT(page, HasSubstr(line));
  EXPECT_THAT(page, HasSubstr("class=\"points dots run1\"")) << "its evaluation";
  EXPECT_THAT(page, HasSubstr("<td>a</td><td class=\"number\">2</td>"));
  EXPECT_THAT(page, HasSubstr("<td>&lt;b&gt;</td><td class=\"number\">1</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">2.5</td></tr>"));
  EXPECT_THAT(page,
              HasSubstr("<tr><td><code>lr</code></td><td>0.125</td><td>0.25</td></tr>"));
  EXPECT_THAT(page, Not(HasSubstr("<code>steps</code>"))) << "is the same";
}

TEST(ReportPage, TellsHowARunCameToAnEnd) {
  EXPECT_THAT(page_of({some_start(), step(1)}), HasSubstr("No end is recorded"));
  EXPECT_THAT(page_of({some_start(),
                       step(1),
                       {{"type", "stop"}, {"step", 1}, {"reason", "a signal"}}}),
              HasSubstr("Stopped by a signal"));
}

TEST(ReportPage, HasSettingsThatDifferAndAllOthers) {
  const std::string page = page_of({some_start(), step(1)});
  EXPECT_THAT(page, HasSubstr("<tr><td><code>lr</code></td><td>0.125</td>"
                              "<td>0.0003</td></tr>"));
  EXPECT_THAT(page, HasSubstr("<code>data</code></td><td>a.txt, b.txt</td><td></td>"));
  const size_t others = page.find("<details>");
  EXPECT_GT(page.find("<code>clip</code></td><td>1.0</td></tr>"), others);
  EXPECT_LT(page.find("<code>lr</code>"), others);
}

TEST(ReportPage, HasThePlanAndWhereItRan) {
  const std::string page = page_of({some_start(), step(1)});
  EXPECT_THAT(page,
              HasSubstr("<td>masters</td><td>host</td><td class=\"number\">2.0 KiB"));
  EXPECT_THAT(page,
              HasSubstr("<td>rank 0 in all</td><td></td><td class=\"number\">3.0 KiB"));
  EXPECT_THAT(page, HasSubstr("<td>activations, about</td><td></td>"
                              "<td class=\"number\">4.0 KiB"));
  EXPECT_THAT(page, HasSubstr("<td>3 \u00d7 left, 1 \u00d7 right</td><td>CPU</td>"));
}

TEST(ReportPage, TellsWhichSettingsChangedOnTheWay) {
  json again = some_start();
  again["config"]["lr"] = 0.25;
  const std::string page = page_of(
      {some_start(), step(1), step(2), again, {{"type", "resume"}, {"step", 1}}, step(2)});
  EXPECT_THAT(page, HasSubstr("<td>lr 0.125 \u2192 0.25</td>"));
  EXPECT_THAT(page, HasSubstr("1 start from a checkpoint"));
  EXPECT_THAT(page, HasSubstr("class=\"resumed\""));
}

TEST(ReportPage, TheStartThatARunBeginsWithIsMarked) {
  EXPECT_THAT(
      page_of({some_start(), {{"type", "resume"}, {"step", 100}}, step(101), step(102)}),
      AllOf(HasSubstr(R"({"x":[100,102],)"), HasSubstr("class=\"resumed\" d=\"M0 0V")));
}

TEST(ReportPage, AnEvaluationBehindTheLastStepIsDrawn) {
  const std::vector<json> records = {
      some_start(), step(1), step(2), {{"type", "eval"}, {"step", 4}, {"loss", 2.75}}};
  EXPECT_THAT(page_of(records), HasSubstr(R"({"x":[0,4],)"));
  const NamedHistory run = {"a", history_of(records)};
  EXPECT_THAT(comparison_page({run, run}), HasSubstr(R"({"x":[0,4],)"));
}

// Nobody's words become code, whoever wrote them.
TEST(ReportPage, EveryTextIsEscaped) {
  const std::string evil = "<script>alert(1)</script>\x01";
  json start = some_start();
  start["world"]["hosts"] = {{evil, 1}};
  start["world"]["device"] = evil;
  start["family"] = evil;
  start["memory"] = {{{"owner", evil}, {"tier", evil}, {"bytes", evil}}};
  start["config"][evil] = evil;
  start["world"]["size"] = evil;
  const std::string page =
      page_of({start,
               step(1),
               {{"type", "sample"}, {"step", 1}, {"prompt", evil}, {"text", evil}},
               {{"type", "stop"}, {"step", 1}, {"reason", evil}}},
              evil);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("\x01")));
  EXPECT_THAT(page,
              HasSubstr("<b>&lt;script&gt;alert(1)&lt;/script&gt;\\x01</b>&lt;script"));
}

TEST(ReportPage, AsksNothingOfAnyNetwork) {
  const std::string page = page_of({some_start(), step(1), step(2)});
  EXPECT_THAT(page, AllOf(Not(HasSubstr("://")), Not(HasSubstr(" src=")),
                          Not(HasSubstr("href=")), Not(HasSubstr("@import"))));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(ReportPage, OfManySamplesSomeAreFolded) {
  std::vector<json> records = {some_start()};
  for (int64_t number = 1; number <= 200; ++number) {
    records.push_back(step(number));
    records.push_back(
        {{"type", "sample"}, {"step", number}, {"prompt", "p"}, {"text", ""}});
  }
  const std::string page = page_of(records);
  const auto at = [&](int64_t number) {
    return page.find("<h3>Step " + std::to_string(number) + "<");
  };
  EXPECT_THAT(page, HasSubstr("50 of 197 earlier ones"));
  EXPECT_LT(at(1), page.find("</details>"));
  EXPECT_EQ(at(2), page.npos);
  for (const int64_t newest : {198, 199, 200}) EXPECT_NE(at(newest), page.npos);
}

TEST(ReportPage, AMillionStepsAreASmallPage) {
  History history;
  for (int64_t number = 1; number <= 1000000; ++number) {
    StepRow row{number};
    row.loss = row.grad_norm = row.lr = row.tokens_per_second = double(number % 977);
    row.host_gib_free = row.loss_scale = 1 + double(number % 7);
    history.steps.push_back(row);
  }
  EXPECT_LT(report_page(history, "a").size(), 600000u);
}

TEST(ReportPage, NothingButAStartIsAPage) {
  EXPECT_THAT(page_of({some_start()}), HasSubstr("<dt>steps</dt><dd>0"));
}

}  // namespace
}  // namespace zero::launcher::page_test
