#include "launcher/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launcher/report/chart.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

// ---- the headline

// "3 steps", "1 step"
std::string plural(int64_t count, const char* what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

// "gpt2, 10,770,816 parameters, 2 ranks, fp32", as far as the run told.
std::string about(const History& history) {
  const json family = last_start(history, "/family");
  std::string text =
      value_text(family.is_null() ? last_start(history, "/config/model") : family);
  const auto add = [&](const std::string& more) {
    text += (text.empty() || more.empty() ? "" : ", ") + more;
  };
  const auto add_count = [&](const char* pointer, const char* what) {
    const json count = last_start(history, pointer);
    if (count.is_number_integer()) add(plural(count.get<int64_t>(), what));
  };
  add_count("/world/parameters", "parameter");
  add_count("/world/size", "rank");
  add(value_text(last_start(history, "/config/dtype")));
  return text.empty() ? "A run" : text;
}

std::string state(const History& history) {
  const std::string when = utc_time(history.last_wall);
  const std::string at = when.empty() ? "" : " at " + when;
  if (history.has_ended) return "Finished" + at + ".";
  if (!history.stopped_by.empty())
    return fmt::format("Stopped by {}{}.", history.stopped_by, at);
  return "No end is recorded: the run works, or was cut off. Last heard of" + at + ".";
}

std::string tile(const std::string& name, const std::string& value,
                 const std::string& more = "") {
  if (value.empty()) return "";
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", name, page_text(value),
                     more.empty() ? "" : "<small>" + page_text(more) + "</small>");
}

// The targets of a step.
std::string what_is_counted(const History& history) {
  return last_start(history, "/task") == "images" ? "images" : "tokens";
}

std::string tiles(const History& history) {
  const json planned = last_start(history, "/config/steps");
  const double seconds = history.sum(&StepRow::seconds),
               targets = history.sum(&StepRow::tokens);
  const std::string samples = what_is_counted(history);
  std::string loss, over, eval, eval_step;
  if (!history.steps.empty()) {
    const auto [value, num_steps] = training_loss(history);
    loss = short_number(value);
    over = num_steps > 1 ? fmt::format("average of about {} steps", grouped(num_steps))
                         : "of the last step";
  }
  if (!history.evaluations.empty()) {
    eval = short_number(history.evaluations.back().loss);
    eval_step = "at step " + grouped(history.evaluations.back().step);
  }
  return "<dl class=\"tiles\">\n" +
         tile(
             "steps", grouped(history.last_step()),
             planned.is_number_integer() ? "of " + grouped(planned.get<int64_t>()) : "") +
         tile(samples, short_count(targets)) +
         tile("time in steps", short_duration(seconds)) +
         tile(samples + "/s", seconds > 0 ? short_count(targets / seconds) : "",
              "on average") +
         tile("training loss", loss, over) + tile("evaluation loss", eval, eval_step) +
         "</dl>\n";
}

std::string notes(const History& history) {
  std::string lines;
  const auto add = [&](int64_t count, const char* what, const char* more) {
    if (count > 0)
      lines += fmt::format("<p class=\"note\">{} {}</p>\n", plural(count, what), more);
  };
  add(std::ssize(history.skipped_at()), "step",
      "without an update, as numbers were not finite: red marks at the foot.");
  add(std::ranges::count_if(history.starts, [](const Start& s) { return s.step > 0; }),
      "start", "from a checkpoint: dotted lines.");
  add(history.num_lost, "record", "could not be written: lines have gaps there.");
  add(history.num_bad_lines, "line", "of metrics.jsonl left out, as no records.");
  return lines;
}

// ---- the pictures

// Where the pictures begin: before the first step, and no later than a mark.
double step_before(const History& history, const std::vector<double>& resumed) {
  const int64_t first = history.steps.empty() ? 0 : history.steps.front().step - 1;
  const auto begin = static_cast<double>(std::max<int64_t>(first, 0));
  return resumed.empty() ? begin : std::min(begin, resumed.front());
}

Steps steps_of(const History& history) {
  Steps steps;
  steps.skipped = history.skipped_at();
  steps.last = static_cast<double>(history.last_told());
  for (const Start& start : history.starts) {
    const auto step = static_cast<double>(start.step);
    if (step > 0 && step <= steps.last) steps.resumed.push_back(step);
  }
  std::ranges::sort(steps.resumed);
  steps.first = step_before(history, steps.resumed);
  return steps;
}

// What changes from step to step, and, of a long run, its average.
std::vector<Line> lines_of(const std::string& name, const Series& series) {
  const int64_t num_steps = steps_to_average(series);
  if (num_steps == 0) return {{name, "", series}};
  return {{name, "raw", series},
          {fmt::format("average of about {} steps (exponential)", grouped(num_steps)),
           "smooth", average(series, num_steps)}};
}

std::string loss_chart(const History& history, const Steps& steps) {
  const std::string each = what_is_counted(history) == "images" ? "image" : "token";
  Chart chart = {.title = "Loss", .unit = "cross entropy per " + each, .axis = "loss"};
  chart.is_wide = true;
  chart.lines = lines_of("training", history.series(&StepRow::loss));
  Series evaluations;
  for (const auto& [step, value] : history.evaluations)
    evaluations.push_back({static_cast<double>(step), value});
  chart.lines.push_back({"evaluation", "dots", evaluations});
  return to_html(chart, steps);
}

// Norms that differ by so much are drawn by their powers.
bool spans_decades(Series series) {
  std::erase_if(series, [](const Point& point) { return !std::isfinite(point.y); });
  if (series.empty()) return false;
  const auto [low, high] = std::ranges::minmax(series, {}, &Point::y);
  return low.y > 0 && high.y > 100 * low.y;
}

std::string charts(const History& history) {
  const Steps steps = steps_of(history);
  const auto chart = [&](const char* title, const char* unit, const std::string& axis,
                         std::vector<Line> lines, double log_base = 0) {
    return to_html({.title = title,
                    .unit = unit,
                    .axis = axis,
                    .lines = std::move(lines),
                    .log_base = log_base,
                    .from_zero = true},
                   steps);
  };
  const Series norm = history.series(&StepRow::grad_norm);
  const std::string samples = what_is_counted(history);
  return "<div class=\"charts\">\n" + loss_chart(history, steps) +
         chart("Gradient norm", "before clipping", "norm", lines_of("norm", norm),
               spans_decades(norm) ? 10 : 0) +
         chart("Learning rate", "", "rate",
               {{"rate", "", history.series(&StepRow::lr)}}) +
         chart(samples == "images" ? "Images per second" : "Tokens per second", "",
               samples + "/s",
               lines_of(samples + "/s", history.series(&StepRow::tokens_per_second))) +
         chart("Free memory", "of rank 0's host", "GiB",
               lines_of("GiB", history.series(&StepRow::host_gib_free))) +
         chart("Loss scale", "", "scale",
               {{"scale", "", history.series(&StepRow::loss_scale)}}, 2) +
         "</div>\n";
}

}  // namespace

std::pair<double, int64_t> training_loss(const History& history) {
  const Series losses = history.series(&StepRow::loss);
  const auto made = std::find_if(history.steps.rbegin(), history.steps.rend(),
                                 [](const StepRow& row) { return !row.is_skipped; });
  const double last =
      made == history.steps.rend() ? history.steps.back().loss : made->loss;
  const int64_t num_steps = steps_to_average(losses);
  if (num_steps == 0 || !std::isfinite(last)) return {last, 1};
  // Where a batch was left out there is a gap.
  const Series mean = average(losses, num_steps);
  const auto known = std::find_if(mean.rbegin(), mean.rend(), [](const Point& point) {
    return std::isfinite(point.y);
  });
  return {known == mean.rend() ? last : known->y, num_steps};
}

std::string report_page(const History& history, const std::string& name) {
  return html_page(name, "<p class=\"about\">" + page_text(about(history)) + ". " +
                             page_text(state(history)) + "</p>\n" + tiles(history) +
                             notes(history) + charts(history) +
                             section("Samples", sample_list(history)) +
                             section("Settings", settings_tables(history)) +
                             section("Memory", memory_table(history)) +
                             section("Where it ran", starts_table(history)));
}

}  // namespace zero::launcher
