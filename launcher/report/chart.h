#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/history.h"

// Pictures of numbers by step, as HTML and SVG.
namespace zero::launcher {

// What people call round: 1, 2 or 5 times a power of ten, all between the two ends, at
// most so many. None where the ends are not finite or not in order.
std::vector<double> round_ticks(double low, double high, int most);
// Powers of `base`, with equal factors between them.
std::vector<double> power_ticks(double low, double high, double base, int most);
// All of one axis alike, and no two the same: "0", "200k", "0.25", "3e-4".
std::string tick_label(double value, const std::vector<double>& ticks);

// Fewer points that look the same in a picture `num_buckets` wide: of each bucket the
// smallest and the largest, so that spikes stay, and a gap where there was one.
Series decimate(const Series& series, double low, double high, int num_buckets);

// Over how many steps a line is averaged, a fiftieth of them without gaps; 0: it is too
// short for that.
int64_t steps_to_average(const Series& series);
// The mean of each point and of all before it, where each step back counts 1 / num_steps
// less. It is divided by what really counts, so that the first ones are not drawn to
// zero. Gaps stay, and count for nothing.
Series average(const Series& series, int64_t num_steps);

struct Line {
  std::string name;   // in the legend
  std::string style;  // classes of CSS: "raw", "smooth", "dots", "run0"
  Series series;
};

struct Chart {
  std::string title, unit, axis;  // the last stands at the vertical one
  std::vector<Line> lines = {};
  double log_base = 0;  // of the vertical axis; 0: it is linear
  bool from_zero = false;
  bool is_wide = false;
};

// What all charts of a page share.
struct Steps {
  double first = 0, last = 1;
  std::vector<double> resumed, skipped;
};

// A figure; its numbers stand in it once more, for the script that reads them out. Empty
// where no line has a point.
std::string to_html(const Chart& chart, const Steps& steps);

// "1,234,567"; "0.00031": as many digits as people read.
std::string grouped(int64_t count);
std::string short_number(double value);

// Text as it stands in HTML, in attributes too.
std::string escaped(const std::string& text);

}  // namespace zero::launcher
