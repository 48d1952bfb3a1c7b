#include "launcher/settings/derived.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engine/options/check_options.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/values.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;
using TextLines = std::vector<std::string>;

TextLines split_lines(const std::string& text) {
  TextLines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// As the engine's options write it.
template <class... Values>
std::string line(const std::string& name, const Values&... values) {
  return split_lines(Lines().add(name, values...).text()).front();
}

TextLines lines_of(const Options& options) {
  return split_lines(shared_lines(options).text() + own_lines(options).text());
}

// What two ranks tell the engine of the default model. Its first values depend on its
// layers.
Options options_of(const Settings& settings) {
  ModelFamily family = some_models()[0];
  family.keys.ffn_dim = "n_inner";
  family.has_parts = family.has_sublayers = true;
  family.init_rules = [](const ModelShape& shape) -> InitRules {
    return {{"*", normal(0, static_cast<double>(shape.layers()))}};
  };
  const BatchPlan batch{settings.global_batch, settings.micro_batch, 2, 0};
  return engine_options(settings, batch, new_shape(family, settings), family);
}

// The lines of `after` that `before` does not have.
TextLines changes(const TextLines& before, TextLines after) {
  std::erase_if(after,
                [&](const auto& line) { return std::ranges::count(before, line) > 0; });
  return after;
}

std::string init_line(int layers) {
  Options options;
  options.init = {{"*", normal(0, layers)}};
  return changes(lines_of({}), lines_of(options)).front();
}

// What a setting tells the engine when it has another value than the default.
struct Row {
  std::string key, value;
  TextLines lines = {};  // none: it is the launcher's own
};

std::vector<Row> rows_of_models() {
  return {
      {"model", "llama"},
      {"preset", "gpt2-124m", {init_line(12), line("nominal_targets", 4.0 * 1024)}},
      {"init_from", "d"},
      {"layers", "5", {init_line(5)}},
      {"dim", "128"},
      {"heads", "2"},
      {"kv_heads", "2"},
      {"ffn_dim", "3"},
      {"vocab", "5"},
      {"model_config", "n_positions=64", {line("nominal_targets", 4.0 * 64)}},
      {"parts", "embed,layers=0:2,norm,head"},
      {"lora", "r=4"},
      {"adapter", "d"},
      {"dropout", "0.5"},
      {"sync_bn", "true", {line("sync_batch_norm", true)}},
      {"data", "d"},
      {"bytes", "true"},
      {"tokenizer", "d"},
      {"text_key", "d"},
      {"separator", "d"},
      {"token_cache", "d"},
      {"python", "d"},
      {"train_on", "last"},
      {"train_on", "all"},
      {"end_of_turn", "d"},
      {"special_in_content", "text"},
      {"chat_date", "2026-11-26"},
      {"too_long", "drop"},
      {"too_long", "truncate"},
      {"pack", "false"},
      {"seq_len", "16", {line("nominal_targets", 4.0 * 16)}},
      {"shuffle", "false"},
      {"augment", "false"},
      {"eval_data", "d"},
      {"eval_fraction", "0.5"},
      {"eval_every", "5"},
      {"eval_samples", "5"},
      {"global_batch", "64", {line("micro_batches_per_rank", 8)}},
      {"micro_batch",
       "8",
       {line("micro_batches_per_rank", 2), line("nominal_targets", 8.0 * 32)}},
      {"accumulate",
       "unit",
       {line("accumulate", Accumulate::kUnit), line("micro_batch", 4),
        line("micro_batches_per_rank", 1)}},
      {"accumulate", "auto"},  // as model, until the launcher has chosen
      {"loss_chunk", "5"},
  };
}

std::vector<Row> rows_of_updates() {
  using Kind = LrSchedule::Kind;
  return {
      {"optimizer", "sgd", {line("optimizer", Optimizer::kSgd)}},
      {"optimizer", "lion", {line("optimizer", Optimizer::kLion)}},
      {"optimizer", "adagrad", {line("optimizer", Optimizer::kAdagrad)}},
      {"lr", "0.5", {line("lr", 0.5)}},
      {"min_lr", "0.25", {line("min_lr", 0.25)}},
      {"schedule", "linear", {line("schedule", Kind::kLinear)}},
      {"schedule", "cosine", {line("schedule", Kind::kCosine)}},
      {"schedule", "wsd", {line("schedule", Kind::kWsd)}},
      {"warmup_steps", "5", {line("warmup_steps", 5)}},
      {"decay_steps", "5", {line("decay_steps", 5)}},
      {"betas", "0.5,0.75", {line("betas", 0.5, 0.75)}},
      {"eps", "0.125", {line("eps", 0.125)}},
      {"momentum", "0.5", {line("momentum", 0.5, false)}},
      {"nesterov", "true", {line("momentum", 0.9, true)}},
      {"weight_decay", "0.5", {line("weight_decay", 0.5)}},
      {"weight_decay_on", "all", {line("weight_decay_on", WeightDecayOn::kAll)}},
      {"clip", "0.5", {line("clip", 0.5)}},
      {"freeze",
       "a*,b",
       {line("group 'a*'", 1.0, -1.0, true), line("group 'b'", 1.0, -1.0, true)}},
      {"unfreeze_at", "7:a*", {line("thaws 'a*'")}},
      {"unused", "leave", {line("unused", Unused::kLeave)}},
      {"dtype", "bf16", {line("dtype", DType::kBf16)}},
      {"dtype", "fp16", {line("dtype", DType::kFp16)}},
      {"reduce_dtype", "bf16", {line("reduce_dtype", DType::kBf16)}},
      {"grad_dtype", "bf16", {line("grad_dtype", DType::kBf16)}},
      {"master", "split", {line("master", MasterStorage::kSplit)}},
      {"state_dtype", "bf16", {line("state_dtype", DType::kBf16)}},
      {"frozen_dtype", "bf16", {line("frozen_dtype", DType::kBf16)}},
      {"frozen_dtype", "fp16", {line("frozen_dtype", DType::kFp16)}},
      {"frozen_dtype", "int8", {line("frozen_dtype", DType::kInt8)}},
      {"frozen_dtype", "fp32"},
      {"loss_scale_init", "64", {line("loss_scale", 64, 2000, 1)}},
      {"loss_scale_window", "64", {line("loss_scale", 1 << 16, 64, 1)}},
      {"loss_scale_min", "64", {line("loss_scale", 1 << 16, 2000, 64)}},
      {"tf32", "true", {line("tf32", true)}},
  };
}

std::vector<Row> rows_of_runs() {
  return {
      {"ranks", "4"},
      {"hosts", "f"},
      {"steps", "50", {line("total_steps", 50)}},
      {"epochs", "2"},
      {"seed", "5", {line("seed", 5)}},
      {"deterministic", "true", {line("deterministic", true)}},
      {"device", "cpu", {line("device", DeviceChoice::kCpu)}},
      {"device", "cuda", {line("device", DeviceChoice::kCuda)}},
      {"share_gpu", "true", {line("share_gpu", true)}},
      {"threads", "5"},
      {"adam_threads", "5", {line("adam_threads", 5)}},
      {"bind", "false"},
      {"time_limit", "5"},
      {"max_bad_steps", "5"},
      {"hang_timeout", "50s"},
      {"host_memory", "5M"},
      {"device_memory", "5M", {line("device_memory", 5 << 20)}},
      {"ignore_plan", "true"},
      {"reshard_after_forward", "false", {line("reshard_after_forward", false)}},
      {"prefetch", "5", {line("prefetch", 5)}},
      {"overlap_updates", "false", {line("overlap_updates", false)}},
      {"recompute", "every:5", {line("recompute", 5)}},
      {"recompute", "none", {line("recompute", 0)}},
      {"offload_activations", "true", {line("offload_activations", true)}},
      {"offload", "none", {line("offload", Offload::kNone, 0.0)}},
      {"offload", "optimizer", {line("offload", Offload::kOptimizer, 0.0)}},
      {"offload", "all"},  // as auto, until the launcher has chosen
      {"device_state_fraction", "0.5", {line("offload", Offload::kAll, 0.5)}},
      {"device_state_fraction", "auto"},
      {"grad_sums", "device", {line("grad_sums", GradSums::kDevice)}},
      {"grad_sums", "host"},  // as auto, until the launcher has chosen
      {"unit", "h.0: dtype=bf16 reshard=false", {line("unit 'h.0'", 2, 0, -1)}},
      {"group", "*.bias: lr=0.5x", {line("group '*.bias'", 0.5, -1.0, false)}},
      {"shard_over", "host", {line("shard_ranks", kRanksOfHost)}},
      {"shard_over", "4", {line("shard_ranks", 4)}},
      {"speculate", "3MiB", {line("speculate_bytes", int64_t{3} << 20)}},
      {"speculate", "auto"},  // until the launcher has chosen
      {"pin", "transfers", {line("pin", Pin::kTransfers)}},
      {"units", "sublayer"},
      {"wrap_min_numel", "5", {line("auto_wrap.min_numel", 5)}},
  };
}

std::vector<Row> rows_of_output() {
  return {
      // of the user
      {"out", "d"},
      {"save_every", "5"},
      {"save", "sync"},
      {"on_save_error", "continue"},
      {"save_at_end", "false"},
      {"save_frozen", "false"},
      {"keep", "5"},
      {"keep_every", "5"},
      {"keep_best", "true"},
      {"resume", "must"},
      {"override", "lr"},
      {"allow_missing", "a*"},
      {"allow_extra", "a*"},
      {"take_over", "true"},
      {"metrics", "csv"},
      {"log_every", "5"},
      {"trace", "steps=1:2"},
      {"init_report", "f"},
      {"eval_choices", "f"},
      {"eval_per_token", "true"},
      {"sample", "a"},
      {"sample_every", "5"},
      {"sample_tokens", "5"},
      {"sample_temperature", "0.5"},
      {"sample_prompts", "f"},
      {"sample_interactive", "true"},
      {"sample_count", "2"},
      {"sample_batch", "2"},
      {"sample_greedy", "true"},
      {"sample_top_k", "5"},
      {"sample_top_p", "0.5"},
      {"sample_min_p", "0.5"},
      {"sample_repetition_penalty", "2"},
      {"sample_stop", "a"},
      {"sample_ignore_eos", "true"},
      {"sample_log_probs", "true"},
      // of tests
      {"dump_state", "d"},
      {"trace_comm", "f", {line("trace_comm", "f.0")}},  // of a rank
      {"delay", "forward=5"},
      {"chaos", "5", {line("chaos_seed", 5)}},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (const auto& rows :
       {rows_of_models(), rows_of_updates(), rows_of_runs(), rows_of_output()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

// False where that value is not allowed.
bool set(Settings& settings, const Setting& setting, const std::string& value) {
  RawValue raw;
  raw.words = setting.is_list ? split(value, ',') : std::vector{value};
  return assign(setting, raw, settings).empty();
}

std::set<std::string> changed_keys(const Settings& settings) {
  std::set<std::string> keys;
  const nlohmann::json before = to_json({}), after = to_json(settings);
  for (const auto& [key, value] : after.items())
    if (before[key] != value) keys.insert(key);
  return keys;
}

TEST(EngineOptions, EachSettingReachesTheEngineOrIsTheLaunchersOwn) {
  const TextLines before = lines_of(options_of({}));
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.key + " = " + row.value);
    const Setting* setting = find_setting(row.key);
    ASSERT_TRUE(setting);
    Settings settings;
    ASSERT_TRUE(set(settings, *setting, row.value));
    EXPECT_THAT(changed_keys(settings), ElementsAre(row.key));
    EXPECT_THAT(changes(before, lines_of(options_of(settings))),
                UnorderedElementsAreArray(row.lines));
  }
}

// "fp32|bf16": a row for bf16; "SIZE": any.
TEST(EngineOptions, EachSettingAndEachOfItsChoicesHasARow) {
  std::map<std::string, std::set<std::string>> told, own;
  for (const Row& row : all_rows())
    (row.lines.empty() ? own : told)[row.key].insert(row.value);
  for (const Setting& setting : setting_table()) {
    EXPECT_TRUE(told.contains(setting.key) || own.contains(setting.key)) << setting.key;
    if (!told.contains(setting.key) || setting.placeholder.find('|') == std::string::npos)
      continue;
    for (const std::string& choice : split(setting.placeholder, '|')) {
      Settings settings;
      if (!set(settings, setting, choice) || changed_keys(settings).empty()) continue;
      EXPECT_TRUE(told[setting.key].contains(choice) || own[setting.key].contains(choice))
          << setting.key << " " << choice;
    }
  }
}

TEST(EngineOptions, DefaultsAreTheEnginesOwn) {
  EXPECT_THAT(
      changes(lines_of(Options()), lines_of(options_of({}))),
      UnorderedElementsAreArray(TextLines{
          line("clip", 1.0), line("total_steps", 1000), line("nominal_targets", 4.0 * 32),
          line("micro_batches_per_rank", 4), init_line(3)}));
}

TEST(EngineOptions, AUnitTakesTheRowsOfAPass) {
  Settings settings;
  settings.accumulate = "unit";
  settings.micro_batch = 2;
  EXPECT_EQ(options_of(settings).micro_batch, 2);
}

}  // namespace
}  // namespace zero::launcher
