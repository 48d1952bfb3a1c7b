#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/commands/verbs.h"
#include "launcher/plan/run_plan.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// A shape that --preset names, and what it takes to train it alone in fp32.
struct PresetRow {
  std::string family, name;
  int64_t parameters = 0, engine_bytes = 0;
};

PresetRow row_of(const ModelFamily& family, const std::string& name) {
  const Settings settings{.model = family.name, .preset = name};
  Wish wish{settings, new_shape(family, settings)};
  fit_to_data(wish.shape, family, settings);
  const std::unique_ptr<Model> model = make_deferred(family, wish.shape);
  const RunPlan plan = make_plan(wish, family, *model);
  return {family.name, name, plan.num_parameters, plan.engine_bytes()};
}

std::string preset_line(const PresetRow& row) {
  return fmt::format("  {:<10} {:<18} {:>10} {:>12}\n", row.family, row.name,
                     short_count(static_cast<double>(row.parameters)),
                     short_bytes(row.engine_bytes));
}

nlohmann::ordered_json preset_json(const PresetRow& row) {
  return {{"family", row.family},
          {"preset", row.name},
          {"parameters", row.parameters},
          {"engine_bytes", row.engine_bytes}};
}

// The models that --preset names: a table, or with --json a list.
int presets(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  require_no_settings(call.line, "presets");
  std::string text = fmt::format("  {:<10} {:<18} {:>10} {:>12}\n", "family", "preset",
                                 "parameters", "memory");
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelFamily& family : call.models) {
    std::vector<PresetRow> rows;
    for (const auto& [name, config] : family.presets)
      rows.push_back(row_of(family, name));
    std::ranges::sort(rows, {}, &PresetRow::parameters);
    for (const PresetRow& row : rows) {
      text += preset_line(row);
      list.push_back(preset_json(row));
    }
  }
  text +=
      "\nmemory: of one rank that trains it in fp32, without activations; zero_launch "
      "plan --preset NAME tells all.\nOf a model that leaves its vocabulary to the data, "
      "that of text, or 1000 classes.\n";
  print_text(call.line.json ? json_text(list) + "\n" : text, "the result");
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb presets_verb() {
  return {.name = "presets",
          .summary = "the models that --preset names, with parameters and memory",
          .run = presets,
          .head = "zero_launch presets [--json]",
          .lines = {{"--json", "print one JSON array"}}};
}

}  // namespace zero::launcher
