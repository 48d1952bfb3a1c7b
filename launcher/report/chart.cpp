#include "launcher/report/chart.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

constexpr int kBuckets = 500;    // of two points each
constexpr int kMostDots = 150;   // more are drawn as a line alone
constexpr int kMostMarks = 500;  // of a kind
constexpr double kSide = 1000;   // of the drawing, which is stretched

bool is_gap(const Point& point) { return !std::isfinite(point.y); }

// From what is drawn to where.
struct Axis {
  double low = 0, high = 1;
  bool is_log = false;

  double at(double value) const {
    const auto scaled = [&](double v) { return is_log ? std::log(v) : v; };
    return kSide * (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
  }
};

struct Frame {
  Axis x, y;
  std::vector<double> x_ticks, y_ticks;
  double tick_base = 0;  // of vertical ticks that are powers
};

// Two numbers so near that no round one lies between them: as an average of equal ones
// is.
bool is_rounding(double low, double high) {
  return high - low <= 1e-12 * std::max(std::abs(low), std::abs(high));
}

void widen(Axis& axis) {
  if (axis.is_log) {
    const double margin = 0.05 * (std::log(axis.high) - std::log(axis.low));
    axis.low = std::max(axis.low * std::exp(-margin), std::numeric_limits<double>::min());
    axis.high =
        std::min(axis.high * std::exp(margin), std::numeric_limits<double>::max());
    return;
  }
  const double span = axis.high - axis.low;
  const double margin = is_rounding(axis.low, axis.high)
                            ? std::max(std::abs(axis.high) * 0.1, 1e-12)
                            : 0.05 * span;
  // What is never negative is not drawn as if it could be.
  const bool touches_zero = axis.low >= 0 && axis.low <= margin;
  axis.low = touches_zero ? 0 : axis.low - margin;
  axis.high += margin;
}

Axis y_axis(const Chart& chart) {
  Axis axis{std::numeric_limits<double>::infinity(),
            -std::numeric_limits<double>::infinity(), chart.log_base > 0};
  for (const Line& line : chart.lines) {
    for (const Point& point : line.series) {
      if (is_gap(point)) continue;
      axis.low = std::min(axis.low, point.y);
      axis.high = std::max(axis.high, point.y);
    }
  }
  if (axis.low <= 0 || axis.high < 1.01 * axis.low) axis.is_log = false;
  if (chart.from_zero && !axis.is_log) axis.low = std::min(axis.low, 0.0);
  widen(axis);
  return axis;
}

Frame frame_of(const Chart& chart, const Steps& steps) {
  Frame frame;
  frame.x = {steps.first, std::max(steps.last, steps.first + 1)};
  frame.y = y_axis(chart);
  frame.x_ticks = round_ticks(frame.x.low, frame.x.high, chart.is_wide ? 8 : 6);
  std::erase_if(frame.x_ticks, [](double x) { return x != std::floor(x); });
  if (frame.y.is_log) {
    frame.y_ticks = power_ticks(frame.y.low, frame.y.high, chart.log_base, 6);
    frame.tick_base = chart.log_base;
  }
  if (frame.y_ticks.size() < 2) {
    frame.y_ticks = round_ticks(frame.y.low, frame.y.high, 6);
    frame.tick_base = 0;
  }
  return frame;
}

// "M0 10.5L3 11": a new piece behind each gap. A piece of one point is a dot.
std::string path_of(const Series& series, const Frame& frame) {
  std::string path;
  bool is_behind_gap = true;
  for (size_t i = 0; i < series.size(); ++i) {
    if (is_gap(series[i])) {
      is_behind_gap = true;
      continue;
    }
    path += fmt::format("{}{:.5g} {:.5g}", is_behind_gap ? 'M' : 'L',
                        frame.x.at(series[i].x), kSide - frame.y.at(series[i].y));
    const bool is_alone =
        is_behind_gap && (i + 1 == series.size() || is_gap(series[i + 1]));
    if (is_alone) path += "h0.01";
    is_behind_gap = false;
  }
  return path;
}

std::string dots_of(const Series& series, const Frame& frame) {
  std::string path;
  for (const Point& point : series) {
    if (!is_gap(point))
      path += fmt::format("M{:.5g} {:.5g}h0.01", frame.x.at(point.x),
                          kSide - frame.y.at(point.y));
  }
  return path;
}

std::string path_element(const std::string& style, const std::string& path) {
  return path.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", style, path);
}

// One in each place that can be told from the others.
std::vector<double> places_of(const std::vector<double>& steps, const Axis& axis) {
  std::vector<double> places;
  for (const double step : steps) {
    if (step < axis.low || step > axis.high + 0.5) continue;
    const double place =
        std::round(std::min(axis.at(step), kSide) * kMostMarks / kSide) / kMostMarks;
    if (places.empty() || places.back() != place) places.push_back(place);
  }
  return places;
}

std::string marks(const Steps& steps, const Frame& frame) {
  std::string resumed, skipped;
  for (const double place : places_of(steps.resumed, frame.x))
    resumed += fmt::format("M{:.5g} 0V{:.5g}", place * kSide, kSide);
  for (const double place : places_of(steps.skipped, frame.x))
    skipped += fmt::format("M{:.5g} {:.5g}V{:.5g}", place * kSide, kSide, 0.96 * kSide);
  return path_element("resumed", resumed) + path_element("skipped", skipped);
}

std::string grid(const Frame& frame) {
  std::string path;
  for (const double y : frame.y_ticks)
    path += fmt::format("M0 {:.5g}H{:.5g}", kSide - frame.y.at(y), kSide);
  return path_element("grid", path);
}

// "100", "10<sup>5</sup>", and powers of other bases as such.
std::string power_label(double value, double base) {
  if (base == 10 && value > 9e-4 && value < 9e4) return fmt::format("{:.5g}", value);
  return fmt::format("{:.0f}<sup>{:.0f}</sup>", base, std::log(value) / std::log(base));
}

std::string labels(const Frame& frame) {
  std::string text;
  for (const double y : frame.y_ticks)
    text += fmt::format("<span class=\"y\" style=\"bottom:{:.4g}%\">{}</span>",
                        frame.y.at(y) / kSide * 100,
                        frame.tick_base > 0 ? power_label(y, frame.tick_base)
                                            : tick_label(y, frame.y_ticks));
  for (const double x : frame.x_ticks)
    text += fmt::format("<span class=\"x\" style=\"left:{:.4g}%\">{}</span>",
                        frame.x.at(x) / kSide * 100, tick_label(x, frame.x_ticks));
  return text;
}

std::string axis_titles(const Chart& chart) {
  return fmt::format("<span class=\"of-x\">step</span><span class=\"of-y\">{}</span>",
                     escaped(chart.axis));
}

std::string legend(const Chart& chart) {
  if (chart.lines.size() < 2) return "";
  std::string text;
  for (const Line& line : chart.lines)
    text +=
        fmt::format("<span class=\"key {}\">{}</span>", line.style, escaped(line.name));
  return "<span class=\"legend\">" + text + "</span>";
}

std::string number_list(const Series& series, double Point::*member, int digits) {
  std::vector<std::string> numbers;
  for (const Point& point : series) {
    const double value = point.*member;
    numbers.push_back(std::isfinite(value) ? fmt::format("{:.{}g}", value, digits)
                                           : "null");
  }
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

// In JSON, without what could end the script around it.
std::string text_for_script(const std::string& text) {
  std::string safe;
  for (const char c : json_text(text)) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

// For the script: {"x": [first, last], "lines": [{"name": ..., "x": [...], "y": [...]}]}
std::string numbers(const Chart& chart, const Frame& frame) {
  std::string lines;
  for (const Line& line : chart.lines) {
    lines +=
        fmt::format(R"({}{{"name":{},"x":{},"y":{}}})", lines.empty() ? "" : ",",
                    text_for_script(line.name), number_list(line.series, &Point::x, 15),
                    number_list(line.series, &Point::y, 6));
  }
  return fmt::format(
      R"(<script type="application/json">{{"x":[{:.15g},{:.15g}],"lines":[{}]}}</script>)",
      frame.x.low, frame.x.high, lines);
}

// So many that neighbours differ.
int significant_digits(const std::vector<double>& ticks, double largest) {
  double spacing = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < ticks.size(); ++i)
    spacing = std::min(spacing, std::abs(ticks[i] - ticks[i - 1]));
  const auto power = [](double value) { return std::floor(std::log10(value) + 1e-9); };
  return static_cast<int>(std::clamp(power(largest) - power(spacing) + 1, 6.0, 15.0));
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int most) {
  std::vector<double> ticks;
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span) || most < 1 || is_rounding(low, high))
    return ticks;
  double unit = std::pow(10, std::floor(std::log10(span / most)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    const double step = factor * unit;
    const double first = std::ceil(low / step - 1e-9),
                 last = std::floor(high / step + 1e-9);
    if (last - first >= most) continue;
    for (double i = first; i <= last; ++i) ticks.push_back(i * step + 0.0);  // not -0
    break;
  }
  return ticks;
}

std::vector<double> power_ticks(double low, double high, double base, int most) {
  std::vector<double> ticks;
  if (!(low > 0) || !(high > low) || !std::isfinite(high) || most < 1) return ticks;
  const double first = std::ceil(std::log(low) / std::log(base) - 1e-9),
               last = std::floor(std::log(high) / std::log(base) + 1e-9);
  const double stride = std::max(1.0, std::ceil((last - first + 1) / most));
  for (double power = first; power <= last; power += stride)
    ticks.push_back(std::pow(base, power));
  return ticks;
}

std::string tick_label(double value, const std::vector<double>& ticks) {
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  for (const double tick : ticks) {
    largest = std::max(largest, std::abs(tick));
    if (tick != 0) smallest = std::min(smallest, std::abs(tick));
  }
  if (value == 0) return "0";
  const int digits = significant_digits(ticks, largest);
  if (largest < 1e-2 || largest >= 1e15 || smallest < largest * 1e-9) {
    const double power = std::floor(std::log10(std::abs(value)) + 1e-9);
    return fmt::format("{:.{}g}e{:.0f}", value / std::pow(10, power), digits, power);
  }
  if (largest < 1e4) return fmt::format("{:.{}g}", value, digits);
  const auto [unit, name] = largest >= 1e12  ? std::pair(1e12, "T")
                            : largest >= 1e9 ? std::pair(1e9, "G")
                            : largest >= 1e6 ? std::pair(1e6, "M")
                                             : std::pair(1e3, "k");
  return fmt::format("{:.{}g}{}", value / unit, digits, name);
}

Series decimate(const Series& series, double low, double high, int num_buckets) {
  if (std::ssize(series) <= 2 * num_buckets) return series;
  Series fewer;
  const auto bucket_of = [&](const Point& point) {
    const double part = (point.x - low) / (high - low);
    return std::clamp(static_cast<int>(part * num_buckets), 0, num_buckets - 1);
  };
  const auto add_bucket = [&](std::span<const Point> bucket) {
    const Point *least = nullptr, *most = nullptr, *gap = nullptr;
    for (const Point& point : bucket) {
      if (is_gap(point)) {
        gap = &point;
      } else {
        if (!least || point.y < least->y) least = &point;
        if (!most || point.y > most->y) most = &point;
      }
    }
    std::vector<const Point*> kept = {least, most, gap};
    std::erase(kept, nullptr);
    std::ranges::sort(kept);
    kept.erase(std::ranges::unique(kept).begin(), kept.end());
    for (const Point* point : kept) fewer.push_back(*point);
  };
  for (size_t begin = 0, end = 0; begin < series.size(); begin = end) {
    while (end < series.size() && bucket_of(series[end]) == bucket_of(series[begin]))
      ++end;
    add_bucket(std::span(series).subspan(begin, end - begin));
  }
  return fewer;
}

int64_t steps_to_average(const Series& series) {
  constexpr int64_t kFewest = 50, kPart = 50;
  const int64_t size = std::ssize(series) - std::ranges::count_if(series, is_gap);
  return size < kFewest ? 0 : std::max<int64_t>(2, size / kPart);
}

Series average(const Series& series, int64_t num_steps) {
  const double kept = 1 - 1 / static_cast<double>(num_steps);
  double sum = 0, weight = 0;
  Series result = series;
  for (Point& point : result) {
    if (is_gap(point)) continue;
    sum = kept * sum + point.y;
    weight = kept * weight + 1;
    point.y = sum / weight;
  }
  return result;
}

std::string to_html(const Chart& chart, const Steps& steps) {
  Chart drawn = chart;
  std::erase_if(drawn.lines, [](const Line& line) {
    return std::ranges::all_of(line.series, is_gap);
  });
  if (drawn.lines.empty()) return "";
  for (Line& line : drawn.lines)
    line.series = decimate(line.series, steps.first, steps.last, kBuckets);
  const Frame frame = frame_of(drawn, steps);
  std::string paths;
  for (const Line& line : drawn.lines) {
    paths += path_element("line " + line.style, path_of(line.series, frame));
    if (std::ssize(line.series) <= kMostDots && line.style.starts_with("dots"))
      paths += path_element("points " + line.style, dots_of(line.series, frame));
  }
  return fmt::format(
      "<figure class=\"chart{}\"><figcaption><b>{}</b> <span class=\"unit\">{}</span>{}"
      "</figcaption>\n<div class=\"area\"><svg viewBox=\"0 0 1000 1000\" "
      "preserveAspectRatio=\"none\" aria-hidden=\"true\">{}{}{}</svg>{}"
      "<i class=\"cursor\"></i><output></output></div>\n{}</figure>\n",
      chart.is_wide ? " wide" : "", escaped(chart.title), escaped(chart.unit),
      legend(drawn), grid(frame), marks(steps, frame), paths,
      labels(frame) + axis_titles(chart), numbers(drawn, frame));
}

std::string grouped(int64_t count) { return fmt::format("{}", fmt::group_digits(count)); }

std::string short_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "not finite";
}

std::string escaped(const std::string& text) {
  static const std::map<char, std::string> entities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string safe;
  for (const char c : text) {
    const auto entity = entities.find(c);
    safe += entity == entities.end() ? std::string(1, c) : entity->second;
  }
  return safe;
}

}  // namespace zero::launcher
