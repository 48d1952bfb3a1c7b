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

std::string text(const std::string& text) { return escaped(printable(text)); }

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
bool spans_decades(Series series) {
  std::erase_if(series, [](const Point& point) { return !std::isfinite(point.y); });
  if (series.empty()) return false;
  const auto [low, high] = std::ranges::minmax(series, {}, &Point::y);
  return low.y > 0 && high.y > 100 * low.y;
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
               lines_of("GiB", history.series(&StepRow::host_gib_free))) +
         chart("Loss scale", "", {{"scale", "", history.series(&StepRow::loss_scale)}},
               2) +
         "</div>\n";
}

std::string section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, content);
}

// How a report looks, in light and dark, on paper and on a phone.
const char* const kReportStyle = R"CSS(
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1c1e21; --soft: #666b73; --rule: #e3e5e8; --panel: #f6f7f8;
  --raw: #a9c4e4; --line: #1f5fa8; --dots: #c2500f; --warn: #b3261e; --mark: #9aa0a8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --text: #e6e7e9; --soft: #9aa0a8; --rule: #2c3036; --panel: #1d2024;
    --raw: #44719f; --line: #7db3ee; --dots: #f0955c; --warn: #f2857c; --mark: #6c727a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 70rem;
  background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
h1 { margin: 0; font-size: 1.6rem; line-height: 1.2; font-weight: 600; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.1rem; font-weight: 600; }
h3 { margin: 1rem 0 .25rem; font-size: .85rem; font-weight: 600; color: var(--soft); }
.about, .note, .unit, footer { color: var(--soft); }
.about { margin: .25rem 0 0; }
.note { margin: .25rem 0; font-size: .9rem; }
footer { margin-top: 3rem; font-size: .8rem; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: 1px; margin: 1.5rem 0 1rem; background: var(--rule); border: 1px solid var(--rule);
}
.tiles div { padding: .6rem .8rem; background: var(--page); }
.tiles dt { font-size: .78rem; color: var(--soft); }
.tiles dd { margin: 0; font-size: 1.3rem; line-height: 1.3; }
.tiles small { display: block; font-size: .75rem; color: var(--soft); }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem 1.5rem; margin-top: 1.75rem; }
.chart { margin: 0; min-width: 0; break-inside: avoid; }
.chart.wide { grid-column: 1 / -1; }
figcaption { font-size: .9rem; }
.unit { font-size: .8rem; }
.legend { float: right; font-size: .8rem; color: var(--soft); }
.key { margin-left: 1rem; white-space: nowrap; }
.key::before {
  content: ""; display: inline-block; width: 1.1em; margin-right: .4em;
  border-top: 2px solid var(--line); vertical-align: .28em;
}
.key.raw::before { border-color: var(--raw); }
.key.dots::before { border-color: var(--dots); }
.area { position: relative; height: 11rem; margin: .6rem .9rem 1.5rem 3.4rem; }
.wide .area { height: 19rem; }
.area svg { display: block; width: 100%; height: 100%; overflow: visible; border-bottom: 1px solid var(--mark); }
.area path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round; }
.grid { stroke: var(--rule); stroke-width: 1; }
.resumed { stroke: var(--mark); stroke-width: 1; stroke-dasharray: 2 4; }
.skipped { stroke: var(--warn); stroke-width: 1.5; }
.line { stroke: var(--line); stroke-width: 1.5; }
.line.raw { stroke: var(--raw); stroke-width: 1; }
.line.smooth { stroke-width: 2; }
.line.dots { stroke: var(--dots); stroke-width: 1.25; }
.points { stroke: var(--dots); stroke-width: 6; }
.area span { position: absolute; font-size: .75rem; line-height: 1; color: var(--soft); white-space: nowrap; }
.area .y { right: 100%; margin-right: .5rem; transform: translateY(50%); }
.area .x { top: 100%; margin-top: .4rem; transform: translateX(-50%); }
sup { font-size: .7em; line-height: 0; }
.cursor { display: none; position: absolute; top: 0; bottom: 0; width: 1px; background: var(--mark); pointer-events: none; }
output {
  display: none; position: absolute; top: .25rem; padding: .3rem .5rem; z-index: 1; pointer-events: none;
  font-size: .78rem; line-height: 1.4; white-space: pre; background: var(--page); border: 1px solid var(--rule);
}
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .25rem 1.5rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
td { overflow-wrap: anywhere; max-width: 32rem; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
.time { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.sum td { font-weight: 600; }
code, pre { font: .85rem/1.5 ui-monospace, SFMono-Regular, Menlo, "Liberation Mono", monospace; }
code { white-space: nowrap; }
pre {
  margin: 0; padding: .6rem .8rem; background: var(--panel); white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 22rem; overflow-y: auto;
}
summary { cursor: pointer; padding: .25rem 0; color: var(--soft); }
@media (max-width: 44rem) {
  body { padding: 1.25rem .9rem 3rem; }
  .charts { grid-template-columns: 1fr; }
  .wide .area { height: 14rem; }
  .legend { float: none; display: block; }
  .key:first-child { margin-left: 0; }
  th, td { padding-right: .8rem; }
}
@media print {
  :root {
    --page: #fff; --text: #000; --soft: #555; --rule: #ddd; --panel: #f6f7f8;
    --raw: #a9c4e4; --line: #1f5fa8; --dots: #c2500f; --warn: #b3261e; --mark: #999;
  }
  body { padding: 0; max-width: none; font-size: 12px; }
  pre { max-height: none; }
}
)CSS";

// Reads numbers out under the pointer. Without it nothing is missing but that.
const char* const kReportScript = R"JS(
for (const chart of document.querySelectorAll(".chart")) {
  const numbers = JSON.parse(chart.querySelector("script").textContent);
  const area = chart.querySelector(".area"), cursor = area.querySelector(".cursor");
  const output = area.querySelector("output"), [first, last] = numbers.x;
  const nearest = (all, x) => {
    let low = 0, high = all.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - all[low - 1] < all[low] - x ? low - 1 : low;
  };
  const text = (value) => value === null ? "not finite" : Number(value.toPrecision(5)).toLocaleString("en", {maximumSignificantDigits: 5});
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const x = first + part * (last - first);
    const main = numbers.lines[0].x, step = main[nearest(main, x)];
    const lines = ["step " + Math.floor(step).toLocaleString("en")];
    for (const line of numbers.lines) {
      const i = nearest(line.x, step);
      const where = line.x[i] === step || line.name !== "evaluation" ? "" : " (step " + line.x[i].toLocaleString("en") + ")";
      lines.push(line.name + " " + text(line.y[i]) + where);
    }
    output.textContent = lines.join("\n");
    const at = (step - first) / (last - first);
    cursor.style.left = 100 * at + "%";
    output.style.left = at < 0.5 ? "calc(" + 100 * at + "% + .5rem)" : "auto";
    output.style.right = at < 0.5 ? "auto" : "calc(" + 100 * (1 - at) + "% + .5rem)";
    cursor.style.display = output.style.display = "block";
  });
  area.addEventListener("pointerleave", () => { cursor.style.display = output.style.display = "none"; });
}
)JS";

}  // namespace

std::string report_page(const History& history, const std::string& name) {
  const std::string title = text(name);
  return kReportBegin + std::string("\n<meta charset=\"utf-8\">\n") +
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
