#include <fmt/format.h>

#include <algorithm>

#include "launcher/report/chart.h"
#include "launcher/report/page.h"
#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

using Runs = std::vector<NamedHistory>;

Steps steps_of_all(const Runs& runs) {
  Steps steps;
  for (const NamedHistory& run : runs)
    steps.last = std::max(steps.last, static_cast<double>(run.history.last_told()));
  return steps;
}

// What changes from step to step: of a long run its average alone, as several noisy lines
// hide one another.
Series calm(const Series& series) {
  const int64_t num_steps = steps_to_average(series);
  return num_steps == 0 ? series : average(series, num_steps);
}

Series losses_of(const History& history) { return calm(history.series(&StepRow::loss)); }

Series speed_of(const History& history) {
  return calm(history.series(&StepRow::tokens_per_second));
}

Series rate_of(const History& history) { return history.series(&StepRow::lr); }

Series evaluations_of(const History& history) {
  Series series;
  for (const auto& [step, loss] : history.evaluations)
    series.push_back({static_cast<double>(step), loss});
  return series;
}

// A line for each run, in its colour.
std::string chart_of(Chart chart, const Runs& runs, Series (*series)(const History&),
                     const std::string& style = "") {
  for (size_t i = 0; i < runs.size(); ++i)
    chart.lines.push_back({printable(runs[i].name), fmt::format("{}run{}", style, i),
                           series(runs[i].history)});
  return to_html(chart, steps_of_all(runs));
}

std::string comparing_charts(const Runs& runs) {
  return "<div class=\"charts\">\n" +
         chart_of({.title = "Training loss",
                   .unit = "exponential average over a fiftieth of a run's steps",
                   .axis = "loss",
                   .is_wide = true},
                  runs, losses_of) +
         chart_of({.title = "Evaluation loss",
                   .unit = "cross entropy per token",
                   .axis = "loss",
                   .is_wide = true},
                  runs, evaluations_of, "dots ") +
         chart_of({.title = "Tokens per second",
                   .unit = "",
                   .axis = "tokens/s",
                   .from_zero = true},
                  runs, speed_of) +
         chart_of(
             {.title = "Learning rate", .unit = "", .axis = "rate", .from_zero = true},
             runs, rate_of) +
         "</div>\n";
}

std::string title_of(const Runs& runs) {
  std::string title;
  for (size_t i = 0; i < runs.size(); ++i)
    title += (i == 0 ? "" : i + 1 < runs.size() ? ", " : " and ") + runs[i].name;
  return title;
}

}  // namespace

std::string comparison_page(const Runs& runs) {
  return html_page(title_of(runs),
                   comparing_charts(runs) + section("Numbers", runs_table(runs)) +
                       section("Settings that differ", differing_settings(runs)));
}

}  // namespace zero::launcher
