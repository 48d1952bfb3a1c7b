#include "launcher/report/chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

namespace zero::launcher::chart_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pointwise;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(RoundTicks, AreRoundAndWithinTheEnds) {
  EXPECT_THAT(round_ticks(0, 10, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(0, 1e6, 6), ElementsAre(0, 2e5, 4e5, 6e5, 8e5, 1e6));
  EXPECT_THAT(round_ticks(-3, 3, 6), ElementsAre(-2, 0, 2));
  EXPECT_THAT(round_ticks(5.49, 5.556, 6),
              Pointwise(DoubleNear(1e-9), {5.5, 5.52, 5.54}));
  EXPECT_THAT(round_ticks(3e-4, 7e-4, 5),
              Pointwise(DoubleNear(1e-12), {3e-4, 4e-4, 5e-4, 6e-4, 7e-4}));
}

TEST(RoundTicks, AreNeverTooMany) {
  for (double high = 1; high < 100; high += 0.37) {
    for (const int most : {2, 3, 6}) {
      const auto ticks = round_ticks(0.1, high, most);
      EXPECT_LE(std::ssize(ticks), most) << high;
      EXPECT_GE(std::ssize(ticks), 1) << high;
    }
  }
}

TEST(RoundTicks, NeedTwoEndsInOrder) {
  EXPECT_THAT(round_ticks(1, 1, 6), IsEmpty());
  EXPECT_THAT(round_ticks(2, 1, 6), IsEmpty());
  EXPECT_THAT(round_ticks(kNan, 1, 6), IsEmpty());
  EXPECT_THAT(round_ticks(0, kInfinite, 6), IsEmpty());
  EXPECT_THAT(round_ticks(3.25, std::nextafter(3.25, 4), 6), IsEmpty());
}

TEST(PowerTicks, AreEquallyFarApart) {
  EXPECT_THAT(power_ticks(0.05, 200, 10, 6),
              Pointwise(DoubleNear(1e-9), {0.1, 1.0, 10.0, 100.0}));
  EXPECT_THAT(power_ticks(1, 65536, 2, 6), ElementsAre(1, 8, 64, 512, 4096, 32768));
  EXPECT_THAT(power_ticks(0, 1, 10, 6), IsEmpty());
}

TEST(TickLabel, IsShort) {
  const auto labels = [](const std::vector<double>& ticks) {
    std::string text;
    for (const double tick : ticks) text += tick_label(tick, ticks) + " ";
    return text;
  };
  EXPECT_EQ(labels({0, 200000, 1000000}), "0 0.2M 1M ");
  EXPECT_EQ(labels({0, 20000}), "0 20k ");
  EXPECT_EQ(labels({0, 0.1 + 0.2, 1}), "0 0.3 1 ");
  EXPECT_EQ(labels({0, 1e-4, 2e-4, 3 * 1e-4}), "0 1e-4 2e-4 3e-4 ");
  EXPECT_EQ(labels({1000, 2000}), "1000 2000 ");
  EXPECT_EQ(labels({5.5, 5.52}), "5.5 5.52 ");
}

TEST(TickLabel, TellsNeighboursApart) {
  for (const auto& [low, span] : std::vector<std::pair<double, double>>{
           {2.302585, 2e-7}, {1e7, 10}, {123456789, 20}, {0.0023, 1e-10}, {1e15, 1e5}}) {
    const std::vector<double> ticks = round_ticks(low, low + span, 6);
    std::set<std::string> labels;
    for (const double tick : ticks) labels.insert(tick_label(tick, ticks));
    EXPECT_GT(ticks.size(), 2u);
    EXPECT_EQ(labels.size(), ticks.size()) << low;
  }
  EXPECT_EQ(tick_label(10000002, {10000000, 10000002}), "10.000002M");
}

Series line(int64_t size) {
  Series series;
  for (int64_t i = 0; i < size; ++i) series.push_back({double(i), std::sin(double(i))});
  return series;
}

TEST(Decimate, KeepsShortSeries) { EXPECT_EQ(decimate(line(20), 0, 19, 10), line(20)); }

TEST(Decimate, KeepsSpikesUpAndDown) {
  Series series = line(100000);
  series[3].y = 7;
  series[50001].y = -9;
  series[99999].y = 5;
  const Series fewer = decimate(series, 0, 99999, 100);
  EXPECT_LE(fewer.size(), 200u);
  EXPECT_GE(fewer.size(), 190u);
  for (const int64_t spike : {3, 50001, 99999})
    EXPECT_THAT(fewer, ::testing::Contains(series[spike]));
  EXPECT_TRUE(std::ranges::is_sorted(fewer, {}, &Point::x));
}

TEST(Decimate, KeepsAGap) {
  Series series = line(1000);
  series[555].y = kNan;
  const Series fewer = decimate(series, 0, 999, 10);
  EXPECT_EQ(std::ranges::count_if(fewer, [](Point p) { return std::isnan(p.y); }), 1);
  EXPECT_EQ(fewer.size(), 21u);
}

TEST(Average, CountsNewerPointsMore) {
  const Series series = {{0, 4}, {1, 1}, {2, kNan}, {3, 8}};
  const Series averaged = average(series, 2);
  EXPECT_EQ(averaged[0].y, 4) << "not half of it, as if zeros came before";
  EXPECT_EQ(averaged[1].y, (0.5 * 4 + 1) / 1.5);
  EXPECT_TRUE(std::isnan(averaged[2].y));
  EXPECT_EQ(averaged[3].y, (0.25 * 4 + 0.5 * 1 + 8) / 1.75) << "the gap does not count";
}

TEST(Average, OfTheSameIsTheSameFromEndToEnd) {
  for (const Point& point : average(Series(100, {0, 3}), 10))
    EXPECT_DOUBLE_EQ(point.y, 3);
}

TEST(Average, IsForLongLines) {
  EXPECT_EQ(steps_to_average(Series(49)), 0);
  EXPECT_EQ(steps_to_average(Series(50)), 2);
  EXPECT_EQ(steps_to_average(Series(5000)), 100);
  Series with_gaps(50, {0, kNan});
  with_gaps.resize(99);
  EXPECT_EQ(steps_to_average(with_gaps), 0) << "a gap is no step";
}

std::string drawn(const Series& series, const Steps& steps = {0, 4, {}, {}}) {
  return to_html({"a < b", "unit", "c < d", {{"a", "", series}}}, steps);
}

TEST(Chart, DrawsALineInPieces) {
  const std::string html = drawn({{0, 1}, {1, 2}, {2, kNan}, {3, 2}, {4, 1}});
  EXPECT_THAT(html, HasSubstr("<b>a &lt; b</b>"));
  EXPECT_THAT(html, HasSubstr("d=\"M0 954.55L250 45.455M750 45.455L1000 954.55\""));
  EXPECT_THAT(html, HasSubstr(R"({"x":[0,4],"lines":[{"name":"a","x":[0,1,2,3,4],)"
                              R"("y":[1,2,null,2,1]}]})"));
}

TEST(Chart, PowersUpToTenThousandAreWrittenOut) {
  const std::string html =
      to_html({"a", "", "", {{"a", "", {{0, 10}, {4, 2e5}}}}, 10}, {0, 4, {}, {}});
  EXPECT_THAT(html, HasSubstr(">10000</span>"));
  EXPECT_THAT(html, HasSubstr(">10<sup>5</sup></span>"));
}

TEST(Chart, NamesItsAxes) {
  EXPECT_THAT(drawn({{0, 1}, {1, 2}}), HasSubstr("<span class=\"of-x\">step</span><span "
                                                 "class=\"of-y\">c &lt; d</span>"));
}

TEST(Chart, ANameDoesNotEndTheScript) {
  const Chart chart = {"a", "", "", {{"\"</script>", "", {{0, 1}}}}};
  EXPECT_THAT(to_html(chart, {}), HasSubstr(R"("name":"\"\u003c/script>")"));
}

TEST(Chart, OnePointIsADot) {
  EXPECT_THAT(drawn({{2, 7}}), HasSubstr("M500 500h0.01\""));
}

TEST(Chart, WithoutNumbersThereIsNone) {
  EXPECT_EQ(drawn({}), "");
  EXPECT_EQ(drawn({{1, kNan}, {2, kInfinite}}), "");
}

TEST(Chart, MarksWhatIsWithin) {
  const std::string html = drawn({{0, 1}, {4, 2}}, {0, 4, {1, 9}, {2, 2.0001}});
  EXPECT_THAT(html, HasSubstr("class=\"resumed\" d=\"M250 0V1000\""));
  EXPECT_THAT(html, HasSubstr("class=\"skipped\" d=\"M500 1000V960\"")) << "one for both";
}

TEST(Chart, EveryNumberIsFinite) {
  for (const Series& series :
       std::vector<Series>{{{0, 0}, {4, 0}},
                           {{0, -5}, {4, -5}},
                           {{0, 1e-300}, {4, 1e300}},
                           {{0, 1e18}, {4, 1e18 + 1e3}},
                           {{0, 3.25}, {4, std::nextafter(3.25, 4)}}}) {
    for (const double base : {0, 2, 10}) {
      const std::string html =
          to_html({"a", "", "", {{"a", "", series}}, base}, {0, 4, {}, {}});
      EXPECT_THAT(html, Not(HasSubstr("nan")));
      EXPECT_THAT(html, Not(HasSubstr("inf")));
    }
  }
}

TEST(Escaped, NothingOfHtmlIsLeft) {
  EXPECT_EQ(escaped("<script>\"a\" & 'b'</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
}

}  // namespace
}  // namespace zero::launcher::chart_test
