#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "launcher/report/chart.h"
#include "launcher/report/page.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::string cell(const std::string& text) {
  return "<td>" + escaped(printable(text)) + "</td>";
}
std::string number_cell(const std::string& text) {
  return "<td class=\"number\">" + escaped(printable(text)) + "</td>";
}
std::string row(const std::string& cells) { return "<tr>" + cells + "</tr>\n"; }

std::string table(const std::string& heads, const std::string& rows) {
  return rows.empty() ? ""
                      : "<div class=\"scroll\"><table><thead>" + row(heads) +
                            "</thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string head(const std::string& text, bool is_number = false) {
  return fmt::format("<th{}>{}</th>", is_number ? " class=\"number\"" : "", text);
}

std::string folded(const std::string& summary, const std::string& content) {
  return content.empty() ? ""
                         : "<details><summary>" + escaped(summary) + "</summary>\n" +
                               content + "</details>\n";
}

std::string bytes_of(const json& value) {
  const bool is_known = value.is_number_integer() && value >= 0;
  return is_known ? short_bytes(value.get<int64_t>()) : "unknown";
}

// "lr 0.001 &rarr; 0.0001" of what is not as it was.
std::string changes(const json& before, const json& now) {
  std::string text;
  if (!before.is_object() || !now.is_object()) return text;
  for (const auto& [key, value] : now.items()) {
    const json old = before.value(key, json());
    if (old != value)
      text += fmt::format("{}{} {} \u2192 {}", text.empty() ? "" : ", ", key,
                          value_text(old), value_text(value));
  }
  return text;
}

std::string hosts_of(const json& record) {
  const json hosts = value_at(record, "/world/hosts");
  std::string text;
  for (const auto& [name, ranks] : hosts.items())
    text +=
        fmt::format("{}{} \u00d7 {}", text.empty() ? "" : ", ", value_text(ranks), name);
  return hosts.is_object() ? text : "";
}

std::string sample_item(const Sample& sample) {
  return fmt::format("<h3>Step {}</h3>\n<pre dir=\"auto\"><b>{}</b>{}</pre>\n",
                     grouped(sample.step), escaped(printable(sample.prompt)),
                     escaped(printable(sample.text)));
}

}  // namespace

std::string value_text(const json& value) {
  if (value.is_null()) return "";
  if (!value.is_array())
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string text;
  for (const json& element : value)
    text += (text.empty() ? "" : ", ") + value_text(element);
  return text;
}

json value_at(const json& record, const char* pointer) {
  const json::json_pointer path(pointer);
  return record.contains(path) ? record.at(path) : json();
}

json last_start(const History& history, const char* pointer) {
  return history.starts.empty() ? json()
                                : value_at(history.starts.back().record, pointer);
}

std::string utc_time(double wall) {
  if (!(wall > 0 && wall < 1e11)) return "";
  return fmt::format("{:%Y-%m-%d %H:%M} UTC",
                     fmt::gmtime(static_cast<std::time_t>(wall)));
}

// Of a run with these settings, which tell what auto became; another version may have
// written them.
Settings defaults_of(const json& config) {
  json known = json::object();
  for (const char* key : {"steps", "eval_data", "deterministic", "device", "share_gpu",
                          "optimizer", "offload"})
    if (config.contains(key)) known[key] = config[key];
  Settings defaults;
  try {
    defaults = settings_from_json(known, "metrics.jsonl");
  } catch (const Error&) {
  }
  defaults = defaults_beside(defaults);
  defaults.accumulate = Settings().accumulate;
  return defaults;
}

std::string settings_tables(const History& history) {
  const json config = last_start(history, "/config");
  if (!config.is_object()) return "";
  std::string changed, others, group;
  const Settings defaults = defaults_of(config);
  for (const Setting& setting : setting_table()) {
    if (!config.contains(setting.key)) continue;
    const json& value = config[setting.key];
    const std::string of_default = value_text(setting.value(defaults));
    const std::string name = "<td><code>" + setting.key + "</code></td>";
    if (value != setting.value(defaults)) {
      changed += row(name + cell(value_text(value)) + cell(of_default));
      continue;
    }
    if (group != setting.group)
      others += row("<th colspan=\"2\">" + (group = setting.group) + "</th>");
    others += row(name + cell(value_text(value)));
  }
  std::string unknown;
  for (const auto& [key, value] : config.items()) {
    if (!find_setting(key)) unknown += row(cell(key) + cell(value_text(value)));
  }
  return table(head("setting") + head("value") + head("default"), changed) +
         folded("All others, as they are by default",
                table(head("setting") + head("value"), others)) +
         folded("Settings that this version does not know",
                table(head("setting") + head("value"), unknown));
}

std::string memory_table(const History& history) {
  const json entries = last_start(history, "/memory");
  std::string rows;
  int64_t sum = 0;
  for (const json& entry : entries.is_array() ? entries : json::array()) {
    const json bytes = value_at(entry, "/bytes");
    rows +=
        row(cell(value_text(value_at(entry, "/owner"))) +
            cell(value_text(value_at(entry, "/tier"))) + number_cell(bytes_of(bytes)));
    if (bytes.is_number_integer()) sum += bytes.get<int64_t>();
  }
  if (!rows.empty())
    rows += "<tr class=\"sum\">" + cell("rank 0 in all") + cell("") +
            number_cell(short_bytes(sum)) + "</tr>\n" +
            row(cell("activations, about") + cell("") +
                number_cell(bytes_of(last_start(history, "/activations"))));
  std::string held;
  const auto add = [&](const char* what, const char* planned, const char* found) {
    const json plan = value_at(history.memory, planned);
    held += row(cell(what) + number_cell(plan.is_null() ? "" : bytes_of(plan)) +
                number_cell(bytes_of(value_at(history.memory, found))));
  };
  if (history.memory.is_object()) {
    add("engine", "/engine_planned", "/engine_allocated");
    add("activations", "/activations_planned", "/activations_peak");
    if (value_at(history.memory, "/offloaded_planned") != 0)
      add("offloaded activations", "/offloaded_planned", "/offloaded_allocated");
    add("process, at most", "/none", "/process_peak");
  }
  return table(head("owner") + head("tier") + head("planned", true), rows) +
         table(head("of the rank that took most") + head("planned", true) +
                   head("held", true),
               held);
}

std::string starts_table(const History& history) {
  constexpr int64_t kMost = 50;
  std::string rows;
  json before;
  const int64_t num_left_out = std::max<int64_t>(std::ssize(history.starts) - kMost, 0);
  for (int64_t i = 0; i < std::ssize(history.starts); ++i) {
    const Start& start = history.starts[i];
    const json config = value_at(start.record, "/config");
    if (i >= num_left_out) {
      rows += row("<td class=\"time\">" + utc_time(start.wall) + "</td>" +
                  number_cell(grouped(start.step)) +
                  number_cell(value_text(value_at(start.record, "/world/size"))) +
                  cell(hosts_of(start.record)) +
                  cell(value_text(value_at(start.record, "/world/device"))) +
                  number_cell(value_text(value_at(start.record, "/world/threads"))) +
                  number_cell(value_text(value_at(start.record, "/world/adam_threads"))) +
                  cell(changes(before, config)));
    }
    before = config;
  }
  const std::string note =
      num_left_out > 0 ? fmt::format("<p class=\"note\">The last {} of {} starts.</p>\n",
                                     kMost, history.starts.size())
                       : "";
  return note + table(head("started") + head("behind step", true) + head("ranks", true) +
                          head("hosts") + head("device") + head("threads", true) +
                          head("Adam's threads", true) + head("changed settings"),
                      rows);
}

std::string runs_table(const std::vector<NamedHistory>& runs) {
  std::string rows;
  for (const auto& [name, history] : runs) {
    const double seconds = history.sum(&StepRow::seconds),
                 tokens = history.sum(&StepRow::tokens);
    const auto& evaluations = history.evaluations;
    rows += row(
        cell(name) + number_cell(grouped(history.last_step())) +
        number_cell(short_count(tokens)) + number_cell(short_duration(seconds)) +
        number_cell(seconds > 0 ? short_count(tokens / seconds) : "") +
        number_cell(history.steps.empty() ? ""
                                          : short_number(training_loss(history).first)) +
        number_cell(evaluations.empty() ? "" : short_number(evaluations.back().loss)));
  }
  return table(head("run") + head("steps", true) + head("tokens", true) +
                   head("time in steps", true) + head("tokens/s", true) +
                   head("training loss", true) + head("evaluation loss", true),
               rows);
}

std::string differing_settings(const std::vector<NamedHistory>& runs) {
  std::string heads = head("setting"), rows;
  for (const NamedHistory& run : runs) heads += head(page_text(run.name));
  for (const Setting& setting : setting_table()) {
    if (setting.key == "out") continue;  // which names the runs
    std::set<std::string> values;
    std::string cells = "<td><code>" + setting.key + "</code></td>";
    for (const NamedHistory& run : runs) {
      const json config = last_start(run.history, "/config");
      const std::string value =
          config.is_object() ? value_text(config.value(setting.key, json())) : "";
      values.insert(value);
      cells += cell(value);
    }
    if (values.size() > 1) rows += row(cells);
  }
  return table(heads, rows);
}

// The last three in sight; of many that came before, some from each part of the run.
std::string sample_list(const History& history) {
  constexpr int64_t kShown = 3, kFolded = 60;
  const int64_t size = std::ssize(history.samples),
                num_older = std::max<int64_t>(size - kShown, 0),
                stride = std::max<int64_t>((num_older + kFolded - 1) / kFolded, 1);
  std::string older, newest;
  int64_t num_told = 0;
  for (int64_t i = 0; i < num_older; i += stride, ++num_told)
    older += sample_item(history.samples[i]);
  for (int64_t i = num_older; i < size; ++i) newest += sample_item(history.samples[i]);
  const std::string which =
      num_told == num_older ? "Earlier ones"
                            : fmt::format("{} of {} earlier ones", num_told, num_older);
  return folded(which, older) + newest;
}

}  // namespace zero::launcher
