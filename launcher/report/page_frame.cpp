// What all pages have: how they look, the script that reads numbers out, and the HTML
// around them.
#include <fmt/format.h>

#include "launcher/report/chart.h"
#include "launcher/report/page.h"
#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

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
  display: flex; flex-wrap: wrap;
  gap: 1px; margin: 1.5rem 0 1rem; background: var(--rule); border: 1px solid var(--rule);
}
.tiles div { flex: 1 1 8.5rem; padding: .6rem .8rem; background: var(--page); }
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
.run0 { --run: var(--line); } .run1 { --run: var(--dots); } .run2 { --run: #2e8b57; }
.run3 { --run: #b5489a; } .run4 { --run: #a08000; } .run5 { --run: #7a7f87; }
.key[class*="run"]::before { border-color: var(--run); }
.area { position: relative; clear: both; height: 11rem; margin: .6rem .9rem 2.6rem 4.4rem; }
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
.area path[class*="run"] { stroke: var(--run); }
.area span { position: absolute; font-size: .75rem; line-height: 1; color: var(--soft); white-space: nowrap; }
.area .y { right: 100%; margin-right: .5rem; transform: translateY(50%); }
.area .x { top: 100%; margin-top: .4rem; transform: translateX(-50%); }
.area .of-x { top: 100%; left: 50%; margin-top: 1.5rem; transform: translateX(-50%); }
.area .of-y { right: 100%; top: 50%; margin-right: 3.4rem; writing-mode: vertical-rl; transform: translateY(-50%) rotate(180deg); }
sup { font-size: .7em; line-height: 0; }
.cursor { display: none; position: absolute; top: 0; bottom: 0; width: 1px; background: var(--mark); pointer-events: none; }
output {
  display: none; position: absolute; top: .25rem; padding: .3rem .5rem; z-index: 1; pointer-events: none;
  font-size: .78rem; line-height: 1.4; white-space: pre-line; background: var(--page); border: 1px solid var(--rule);
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
    const steps = numbers.lines.map((line) => line.x[nearest(line.x, x)]);
    const step = steps.reduce((best, each) => Math.abs(each - x) < Math.abs(best - x) ? each : best);
    const lines = ["step " + Math.floor(step).toLocaleString("en")];
    for (const line of numbers.lines) {
      const i = nearest(line.x, step), far = Math.abs(line.x[i] - step) > (last - first) / 100;
      if (far && line.name !== "evaluation") continue;
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

std::string page_text(const std::string& text) { return escaped(printable(text)); }

std::string section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, content);
}

std::string html_page(const std::string& name, const std::string& body) {
  const std::string title = page_text(name);
  return kReportBegin + std::string("\n<meta charset=\"utf-8\">\n") +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>" +
         title + "</title>\n<style>" + kReportStyle + "</style>\n</head>\n<body>\n<h1>" +
         title + "</h1>\n" + body +
         "<footer>Made by zero_launch report.</footer>\n<script>" + kReportScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace zero::launcher
