#include "launcher/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launcher/report/chart.h"
#include "launcher/report/style.h"
#include "launcher/report/tables.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::string text(const std::string& text) { return escaped(printable(text)); }

json last_start(const History& history, const char* pointer) {
  return history.starts.empty() ? json() : at(history.starts.back().record, pointer);
}

int64_t last_step(const History& history) {
  return history.steps.empty() ? 0 : history.steps.back().step;
}

// Of what was told and is finite.
double sum_of(const History& history, double StepRow::*member) {
  double sum = 0;
  for (const StepRow& row : history.steps) {
    if (std::isfinite(row.*member)) sum += row.*member;
  }
  return sum;
}

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
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", name, text(value),
                     more.empty() ? "" : "<small>" + text(more) + "</small>");
}

std::string tiles(const History& history) {
  const json planned = last_start(history, "/config/steps");
  const double seconds = sum_of(history, &StepRow::seconds),
               tokens = sum_of(history, &StepRow::tokens);
  std::string loss, eval, eval_step;
  if (!history.steps.empty()) loss = short_number(history.steps.back().loss);
  if (!history.evaluations.empty()) {
    eval = short_number(history.evaluations.back().loss);
    eval_step = "at step " + grouped(history.evaluations.back().step);
  }
  return "<dl class=\"tiles\">\n" +
         tile(
             "steps", grouped(last_step(history)),
             planned.is_number_integer() ? "of " + grouped(planned.get<int64_t>()) : "") +
         tile("tokens", short_count(tokens)) +
         tile("time in steps", short_duration(seconds)) +
         tile("tokens/s", seconds > 0 ? short_count(tokens / seconds) : "",
              "on average") +
         tile("training loss", loss, "of the last step") +
         tile("evaluation loss", eval, eval_step) + "</dl>\n";
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

Steps steps_of(const History& history) {
  Steps steps;
  steps.skipped = history.skipped_at();
  for (const Start& start : history.starts) {
    const bool is_within = start.step > 0 && start.step <= last_step(history);
    if (is_within) steps.resumed.push_back(static_cast<double>(start.step));
  }
  std::ranges::sort(steps.resumed);
  if (history.steps.empty()) return steps;
  const int64_t first = history.steps.front().step;
  steps.first = first <= 1 ? 0 : static_cast<double>(first);
  steps.last = static_cast<double>(last_step(history));
  return steps;
}

// What changes from step to step, and, of a long run, its mean.
std::vector<Line> lines_of(const char* name, const Series& series) {
  constexpr int64_t kFewest = 50;  // that are worth a mean
  const int64_t size = std::ssize(series), around = std::max<int64_t>(size / 50, 2);
  if (size < kFewest) return {{name, "", series}};
  return {{name, "raw", series},
          {fmt::format("mean of {} steps", grouped(2 * around + 1)), "smooth",
           smooth(series, around)}};
}

std::string loss_chart(const History& history, const Steps& steps) {
  Chart chart;
  chart.title = "Loss";
  chart.unit = "cross entropy per token";
  chart.is_wide = true;
  chart.lines = lines_of("training", history.series(&StepRow::loss));
  Series evaluations;
  for (const auto& [step, value] : history.evaluations)
    evaluations.push_back({static_cast<double>(step), value});
  chart.lines.push_back({"evaluation", "dots", evaluations});
  return to_html(chart, steps);
}

// Norms that differ by so much are drawn by their powers.
bool spans_decades(const Series& series) {
  double low = INFINITY, high = 0;
  for (const Point& point : series) {
    if (!std::isfinite(point.y)) continue;
    low = std::min(low, point.y);
    high = std::max(high, point.y);
  }
  return low > 0 && high > 100 * low;
}

Series scaled(Series series, double factor) {
  for (Point& point : series) point.y *= factor;
  return series;
}

std::string charts(const History& history) {
  const Steps steps = steps_of(history);
  const auto chart = [&](const char* title, const char* unit, std::vector<Line> lines,
                         double log_base = 0) {
    return to_html({.title = title,
                    .unit = unit,
                    .lines = std::move(lines),
                    .log_base = log_base,
                    .from_zero = true},
                   steps);
  };
  const Series norm = history.series(&StepRow::grad_norm);
  return "<div class=\"charts\">\n" + loss_chart(history, steps) +
         chart("Gradient norm", "before clipping", lines_of("norm", norm),
               spans_decades(norm) ? 10 : 0) +
         chart("Learning rate", "", {{"rate", "", history.series(&StepRow::lr)}}) +
         chart("Tokens per second", "",
               lines_of("tokens/s", history.series(&StepRow::tokens_per_second))) +
         chart("Free memory", "GiB of rank 0's host",
               lines_of("GiB",
                        scaled(history.series(&StepRow::host_bytes_free), 1.0 / kGiB))) +
         chart("Loss scale", "", {{"scale", "", history.series(&StepRow::loss_scale)}},
               2) +
         "</div>\n";
}

std::string section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, content);
}

}  // namespace

std::string report_page(const History& history, const std::string& name) {
  const std::string title = text(name);
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>" +
         title + "</title>\n<style>" + kReportStyle + "</style>\n</head>\n<body>\n<h1>" +
         title + "</h1>\n<p class=\"about\">" + text(about(history)) + ". " +
         text(state(history)) + "</p>\n" + tiles(history) + notes(history) +
         charts(history) + section("Samples", sample_list(history)) +
         section("Settings", settings_tables(history)) +
         section("Memory", memory_table(history)) +
         section("Where it ran", starts_table(history)) +
         "<footer>Made by zero_launch report.</footer>\n<script>" + kReportScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace zero::launcher
