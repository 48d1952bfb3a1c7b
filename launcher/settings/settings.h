#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace zero::launcher {

// Between two checkpoints; both 0: none but the last.
struct SaveInterval {
  int64_t steps = 0;  // or, if 0,
  int64_t seconds = 0;
  bool operator==(const SaveInterval&) const = default;
};

// From the first step to the last, counted as step lines are; both 0: none.
struct StepRange {
  int64_t first = 0, last = 0;
  bool operator==(const StepRange&) const = default;
};

// Everything `train` can be told, with defaults. What each one means and allows is
// written once, in setting_table.cpp; what a new run chooses instead, in new_run.h.
struct Settings {
  // --- model
  std::string model = "gpt2";
  std::string preset = {};
  std::string init_from = {};
  int64_t layers = 0;
  int64_t dim = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t ffn_dim = 0;
  int64_t vocab = 0;
  std::vector<std::string> model_config = {};
  std::vector<std::string> parts = {};
  std::string lora = {};
  std::string adapter = {};
  double dropout = 0;
  bool sync_bn = false;

  // --- data
  std::vector<std::string> data = {};
  bool bytes = false;
  std::string tokenizer = {};
  std::string text_key = "text";
  std::string separator = {};
  std::string token_cache = {};
  std::string python = {};
  std::string train_on = "assistant";
  std::string end_of_turn = {};
  std::string special_in_content = "error";
  std::string chat_date = {};
  std::string too_long = "error";
  bool pack = true;
  int64_t seq_len = 0;
  bool shuffle = true;
  bool augment = true;
  std::vector<std::string> eval_data = {};
  double eval_fraction = 0;
  int64_t eval_every = 0;
  int64_t eval_samples = 64;

  // --- batch
  int64_t global_batch = 32;
  int64_t micro_batch = 4;
  std::string accumulate = "model";
  int64_t loss_chunk = 0;

  // --- optimizer
  std::string optimizer = "adamw";
  double lr = 3e-4;
  double min_lr = 0;
  std::string schedule = "constant";
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.1;
  std::string weight_decay_on = "matrices";
  double clip = 1;
  std::vector<std::string> freeze = {}, group = {}, unfreeze_at = {};
  std::string unused = "zeros";

  // --- run
  int64_t ranks = 0;
  std::string hosts = {};
  int64_t steps = 1000;  // 0: as many as epochs says
  int64_t epochs = 0;
  int64_t seed = 0;
  bool deterministic = false;
  std::string device = "auto";
  bool share_gpu = false;
  bool tf32 = false;
  int64_t threads = 0;
  int64_t adam_threads = 0;
  bool bind = true;
  int64_t time_limit = 0;  // seconds
  int64_t max_bad_steps = 10;
  int64_t hang_timeout = 600;  // seconds
  int64_t host_memory = 0;     // bytes; 0: what is free
  int64_t device_memory = 0;   // bytes, of one GPU; 0: what is free
  bool ignore_plan = false;

  // --- precision
  std::string dtype = "fp32";
  std::string reduce_dtype = "fp32";
  std::string grad_dtype = "fp32";
  std::string master = "fp32";
  std::string state_dtype = "fp32";
  std::string frozen_dtype = "auto";
  std::vector<std::string> unit = {};
  int64_t loss_scale_init = 1 << 16;
  int64_t loss_scale_window = 2000;
  int64_t loss_scale_min = 1;

  // --- sharding
  std::string units = "layer";
  std::string shard_over = "all";
  bool reshard_after_forward = true;
  std::string prefetch = "auto";
  bool overlap_updates = true;
  std::string recompute = "unit";
  bool offload_activations = false;
  std::string offload = "auto";
  std::string grad_sums = "auto";
  std::string device_state_fraction = "0";
  std::string speculate = "off";
  std::string pin = "all";
  int64_t wrap_min_numel = 0;

  // --- output
  std::string out = {};
  SaveInterval save_every = {.steps = 0, .seconds = 600};
  std::string save = "async";
  std::string on_save_error = "stop";
  bool save_at_end = true;
  bool save_frozen = true;
  int64_t keep = 2;
  int64_t keep_every = 0;
  bool keep_best = false;
  std::string resume = "auto";
  std::vector<std::string> overrides = {};
  std::vector<std::string> allow_missing = {};
  std::vector<std::string> allow_extra = {};
  bool take_over = false;
  std::vector<std::string> metrics = {"jsonl"};
  int64_t log_every = 1;
  StepRange trace = {};
  std::string init_report = {};
  std::string eval_choices = {};
  bool eval_per_token = false;
  std::string sample = {};
  int64_t sample_every = 0;
  int64_t sample_tokens = 200;
  std::string sample_prompts = {};
  bool sample_interactive = false;
  int64_t sample_count = 1;
  int64_t sample_batch = 16;
  double sample_temperature = 0.8;
  bool sample_greedy = false;
  int64_t sample_top_k = 0;
  double sample_top_p = 1;
  double sample_min_p = 0;
  double sample_repetition_penalty = 1;
  std::vector<std::string> sample_stop = {};
  bool sample_ignore_eos = false;
  bool sample_log_probs = false;

  // --- tests
  std::string dump_state = {};
  std::string trace_comm = {};
  std::vector<std::string> delay = {};
  int64_t chaos = 0;

  bool operator==(const Settings&) const = default;
};

}  // namespace zero::launcher
