#include "launcher/run/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/run/lines.h"
#include "launcher/run/progress.h"

namespace zero::launcher {
namespace {

// The order of the keys is that of the code: a person reads these lines too.
using Json = nlohmann::ordered_json;

int64_t wall_milliseconds() { return std::llround(wall_seconds() * 1e3); }

Json to_json(const StepRecord& r) {
  const double rate = r.seconds > 0 ? 1 / r.seconds : 0;
  Json json = {{"type", "step"},
               {"step", r.step},
               {"loss", r.loss},
               {"ppl", std::exp(r.loss)},
               {"grad_norm", r.grad_norm},
               {"clip_coef", r.clip_coef},
               {"lr", r.lr},
               {"tokens", r.num_targets},
               {"seconds", r.seconds},
               {"tokens_per_second", static_cast<double>(r.num_targets) * rate},
               {"updates_per_second", r.skipped ? 0 : rate},
               {"host_bytes_free", r.host_bytes_free},
               {"host_bytes_peak", r.host_bytes_peak},
               {"wall", wall_milliseconds() * 1e-3},
               {"bytes_h2d", r.traffic.to_device},
               {"bytes_d2h", r.traffic.from_device},
               {"bytes_gathered", r.traffic.gathered},
               {"bytes_reduced", r.traffic.reduced},
               {"bytes_across_hosts", r.traffic.across},
               {"share_compute", r.shares.compute},
               {"share_waiting", r.shares.waiting},
               {"share_weights", r.shares.weights},
               {"share_gradients", r.shares.gradients},
               {"share_optimizer", r.shares.optimizer},
               {"share_saves", r.shares.saves}};
  if (r.loss_scale > 0) json["loss_scale"] = r.loss_scale;
  if (r.num_drafts > 0) {
    json["drafts"] = r.num_drafts;
    json["drafts_taken"] = r.num_drafts_taken;
  }
  if (r.skipped) {
    json["skipped"] = true;
    json["first_bad"] = r.first_bad;
  }
  return json;
}

// What a table has: a column for each number of a step and of an evaluation, the latter
// in rows of their own.
std::vector<std::string> csv_columns(bool has_loss_scale) {
  StepRecord some;
  some.loss_scale = has_loss_scale;
  std::vector<std::string> columns;
  const Json step = to_json(some);
  for (const auto& [key, value] : step.items()) {
    if (key != "type") columns.push_back(key);
  }
  columns.insert(columns.end(), {"eval_loss", "eval_ppl"});
  return columns;
}

TensorboardFile::Scalars scalars_of(const Json& step) {
  constexpr std::pair<const char*, const char*> kTags[] = {
      {"train/loss", "loss"},
      {"train/grad_norm", "grad_norm"},
      {"train/lr", "lr"},
      {"train/tokens_per_second", "tokens_per_second"},
      {"train/step_seconds", "seconds"},
      {"train/loss_scale", "loss_scale"}};
  TensorboardFile::Scalars scalars;
  for (const auto& [tag, key] : kTags)
    if (step.contains(key)) scalars.emplace_back(tag, step[key].get<double>());
  return scalars;
}

void append(AppendFile& file, const Json& record) {
  if (file.num_lost() > 0 &&
      !file.append(json_text({{"type", "gap"}, {"lost", file.num_lost()}})))
    return;
  file.append(json_text(record));
}

}  // namespace

StepRecord behind_wait(StepRecord record, double waited) {
  if (waited == 0) return record;
  Shares waiting;
  waiting.waiting = waiting.saves = 1;
  MeanShares both;
  both.add(record.shares, record.seconds);
  both.add(waiting, waited);
  record.shares = both.mean();
  record.seconds += waited;
  return record;
}

bool is_csv_of_ours(const std::string& path) {
  const std::vector<std::string> columns = columns_of_csv(path);
  return columns.size() > 2 && columns.front() == "step" &&
         columns[columns.size() - 2] == "eval_loss" && columns.back() == "eval_ppl";
}

Metrics::Metrics(const Settings& settings, int64_t num_steps)
    : jsonl_(settings.out + "/metrics.jsonl", kRecordBegin) {
  const auto is_asked_for = [&](const char* format) {
    return std::ranges::count(settings.metrics, format) > 0;
  };
  if (is_asked_for("csv"))
    csv_ = std::make_unique<CsvFile>(settings.out + "/metrics.csv",
                                     csv_columns(settings.dtype == "fp16"));
  if (is_asked_for("tensorboard"))
    tensorboard_ =
        std::make_unique<TensorboardFile>(settings.out + "/tensorboard", num_steps + 1);
}

void Metrics::step(const StepRecord& record) {
  const Json json = to_json(record);
  append(jsonl_, json);
  if (tensorboard_ && !record.skipped) tensorboard_->write(record.step, scalars_of(json));
  if (csv_) csv_->write(json);
}

void Metrics::eval(const EvalRecord& r) {
  if (tensorboard_) {
    tensorboard_->write(r.step, {{"eval/loss", r.loss}});
    if (r.accuracy) tensorboard_->write(r.step, {{"eval/accuracy", *r.accuracy}});
  }
  if (csv_)
    csv_->write(
        {{"step", r.step}, {"eval_loss", r.loss}, {"eval_ppl", std::exp(r.loss)}});
  nlohmann::ordered_json record = {{"step", r.step},
                                   {"loss", r.loss},
                                   {"ppl", std::exp(r.loss)},
                                   {"tokens", r.tokens},
                                   {"seconds", r.seconds}};
  if (r.accuracy) record["accuracy"] = *r.accuracy;
  note("eval", record);
}

void Metrics::note(const std::string& type, const nlohmann::ordered_json& record) {
  Json line = {{"type", type}};
  line.update(record);
  line["wall"] = wall_milliseconds() * 1e-3;
  append(jsonl_, line);
}

}  // namespace zero::launcher
