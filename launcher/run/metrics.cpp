#include "launcher/run/metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace zero::launcher {
namespace {

// The order of the keys is that of the code: a person reads these lines too.
using Json = nlohmann::ordered_json;

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count() * 1e-3;
}

std::string dump(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const StepRecord& r) {
  const double rate = r.seconds > 0 ? 1 / r.seconds : 0;
  Json json = {{"type", "step"},
               {"step", r.step},
               {"loss", r.loss},
               {"ppl", std::exp(r.loss)},
               {"grad_norm", r.grad_norm},
               {"clip_coef", r.clip_coef},
               {"lr", r.lr},
               {"tokens", r.tokens},
               {"seconds", r.seconds},
               {"tokens_per_second", static_cast<double>(r.tokens) * rate},
               {"updates_per_second", r.skipped ? 0 : rate},
               {"host_bytes_free", r.host_bytes_free},
               {"wall", wall_seconds()}};
  if (r.skipped) {
    json["skipped"] = true;
    json["first_bad"] = r.first_bad;
  }
  return json;
}

// The names of a step's numbers or the numbers, with commas.
std::string csv_line(const Json& step, bool names) {
  std::string line;
  for (const auto& [key, value] : step.items()) {
    if (key == "type" || key == "skipped" || key == "first_bad") continue;
    const std::string cell =
        names                                                            ? key
        : value.is_number_float() && !std::isfinite(value.get<double>()) ? "nan"
                                                                         : value.dump();
    line += (line.empty() ? "" : ",") + cell;
  }
  return line;
}

void append(AppendFile& file, const Json& record) {
  if (file.num_lost() > 0 &&
      !file.append(dump({{"type", "gap"}, {"lost", file.num_lost()}})))
    return;
  file.append(dump(record));
}

}  // namespace

Metrics::Metrics(const std::string& folder, bool with_csv)
    : jsonl_(folder + "/metrics.jsonl") {
  if (with_csv) csv_ = std::make_unique<AppendFile>(folder + "/metrics.csv");
}

void Metrics::run(const nlohmann::json& config, const nlohmann::json& world) {
  append(
      jsonl_,
      {{"type", "run"}, {"world", world}, {"config", config}, {"wall", wall_seconds()}});
}

void Metrics::step(const StepRecord& record) {
  const Json json = to_json(record);
  append(jsonl_, json);
  if (!csv_) return;
  if (csv_->is_empty()) csv_->append(csv_line(json, /*names=*/true));
  csv_->append(csv_line(json, /*names=*/false));
}

void Metrics::eval(const EvalRecord& r) {
  append(jsonl_, {{"type", "eval"},
                  {"step", r.step},
                  {"loss", r.loss},
                  {"ppl", std::exp(r.loss)},
                  {"tokens", r.tokens},
                  {"seconds", r.seconds},
                  {"wall", wall_seconds()}});
}

void Metrics::note(const std::string& type, nlohmann::json record) {
  Json line = {{"type", type}};
  for (const auto& [key, value] : record.items()) line[key] = value;
  line["wall"] = wall_seconds();
  append(jsonl_, line);
}

}  // namespace zero::launcher
