#include "launcher/settings/names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

std::string normalized(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// Letters to add, drop, change or swap with their neighbour (optimal string alignment).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before_previous, previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({change, previous[j] + 1, current[j - 1] + 1});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    before_previous = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Does it begin with `wanted`, or does one of its words?
bool begins_with(const std::string& candidate, const std::string& wanted) {
  return candidate.starts_with(wanted) || candidate.find('_' + wanted) != candidate.npos;
}

// What something is called here, and by others: PyTorch FSDP, DeepSpeed, Hugging Face's
// Trainer, fairseq, Megatron-LM and nanoGPT.
struct Translation {
  std::string advice, foreign_names;
};

const std::vector<Translation>& translations() {
  static const std::string steps = "here: @steps, the number of updates";
  static const std::string sharded =
      "not needed: weights, gradients and optimizer state are always sharded over ranks";
  static const std::vector<Translation> all = {
      {"here: @global_batch, the samples of a step on all ranks together; the number of "
       "accumulated passes is global_batch / (micro_batch * ranks)",
       "gradient_accumulation_steps update_freq train_batch_size grad_accum "
       "grad_accum_steps grad_accumulation_steps global_batch_size batch_size"},
      {"here: @micro_batch, the samples of one kernel pass",
       "per_device_train_batch_size train_micro_batch_size_per_gpu micro_batch_size "
       "per_device_eval_batch_size"},
      {steps, "max_steps max_update max_iters train_iters"},
      {steps + "; the banner of a run tells how many make an epoch",
       "num_train_epochs max_epoch max_epochs num_epochs epochs epoch"},
      {"here: @lr", "learning_rate"},
      {"here: @schedule", "lr_scheduler lr_scheduler_type lr_decay_style"},
      {"here: @warmup_steps",
       "warmup_updates warmup_iters lr_warmup_iters num_warmup_steps"},
      {"here: @warmup_steps, a number of steps", "warmup warmup_ratio"},
      {"here: @betas", "adam_betas"},
      {"here: @betas, both in one", "adam_beta1 adam_beta2 beta1 beta2"},
      {"here: @eps", "adam_eps adam_epsilon"},
      {"here: @clip", "max_grad_norm gradient_clipping clip_grad grad_clip clip_norm"},
      {"here: @recompute with unit, which is the default, or every:2",
       "checkpoint_activations gradient_checkpointing activation_checkpointing "
       "recompute_activations"},
      {"here: @loss_scale_init, of @dtype fp16",
       "loss_scale fp16_init_scale initial_scale_power init_scale"},
      {"here: @loss_scale_window", "fp16_scale_window growth_interval"},
      {"here: @loss_scale_min", "min_loss_scale"},
      {"here: @dtype with bf16, fp16 or fp32",
       "fp16 bf16 mixed_precision precision torch_dtype"},
      {sharded, "zero_optimization zero_stage fsdp ddp_backend"},
      {sharded + "; see @reshard_after_forward", "sharding_strategy"},
      {"here: @offload with optimizer, or all for weights, too; on the CPU not "
       "needed",
       "cpu_offload offload_optimizer offload_param"},
      {"here: @offload_activations, beside @recompute",
       "cpu_checkpointing activation_offloading"},
      {"here: @ranks, or mpirun -n RANKS zero_launch ...",
       "nproc_per_node num_gpus world_size"},
      {"here: @wrap_min_numel", "min_num_params"},
      {"here: @out", "output_dir out_dir save_dir save"},
      {"here: @save_every", "save_steps save_interval"},
      {"here: @keep", "save_total_limit"},
      {"here: @log_every", "logging_steps log_interval"},
      {"here: @eval_every", "eval_steps eval_interval"},
      {"here: @eval_samples", "eval_iters"},
      {"here: @resume", "resume_from_checkpoint restore_file load"},
      {"here: @seq_len",
       "tokens_per_sample max_seq_length max_seq_len seq_length sequence_length "
       "block_size context context_length ctx_len n_positions max_position_embeddings"},
      {"here: @layers", "n_layer num_layers num_hidden_layers"},
      {"here: @dim", "n_embd hidden_size"},
      {"here: @heads", "n_head num_heads num_attention_heads"},
      {"here: @kv_heads", "num_key_value_heads"},
      {"here: @ffn_dim", "intermediate_size ffn_hidden_size n_inner"},
      {"not needed: data is mapped into memory, no process reads it ahead",
       "num_workers dataloader_num_workers"},
      {"not here: there is no compiler behind LibTorch (C++); what a step takes is in "
       "`zero_launch bench step`",
       "compile torch_compile"},
      {"here: --verbose; @chaos and @trace_comm for the curious; a run always says what "
       "it does",
       "debug log_level"},
      {"here: @metrics with jsonl, csv or tensorboard",
       "report_to logger wandb tensorboard tensorboard_dir logging_dir"},
      {"here: @adam_threads for the optimizer, @threads for the model",
       "num_threads omp_num_threads nthreads"},
      {"here: @init_from, a folder of Hugging Face or of zero",
       "model_name_or_path pretrained from_pretrained init_checkpoint "
       "finetune_from_model"},
      {"here: @data", "dataset train_file train_data data_path dataset_path input_file"},
      {"here: @eval_data", "validation_file valid_data val_data eval_file"},
      {"here: @sample, which is drawn at the end; `zero_launch generate` has --prompt",
       "prompt"},
      {"here: @sample_temperature; `zero_launch generate` has --temperature",
       "temperature"},
      {"here: @sample_tokens; `zero_launch generate` has --num-tokens",
       "max_new_tokens max_tokens max_length num_tokens"},
      {"not here: a token is drawn from all of them, by --temperature",
       "top_k top_p num_beams repetition_penalty"},
      {"here: @deterministic", "use_deterministic_algorithms full_determinism"},
      {"here: @prefetch, the units that are gathered ahead",
       "forward_prefetch backward_prefetch limit_all_gathers "
       "stage3_prefetch_bucket_size"},
      {"here: @ranks, processes that share one model",
       "gpus n_gpu devices nproc n np num_processes ntasks"},
      {"here: @weight_decay", "wd adam_weight_decay weight_decay_rate"},
      {"here: @min_lr", "lr_end end_learning_rate min_learning_rate"},
      {"here: @optimizer", "optim optim_type"},
      {"here: @time_limit, as 23:30:00 or 1-12:00:00", "max_time walltime timeout"},
      {"not here: every parameter is trained but those of @freeze",
       "lora lora_r lora_rank lora_alpha use_peft peft"},
      {"here: @vocab", "vocab_size padded_vocab_size"},
  };
  return all;
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string wanted = normalized(name);
  size_t best_distance = std::max<size_t>(2, wanted.size() / 3) + 1;
  std::string best;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wanted, normalized(candidate));
    if (distance < best_distance && distance < wanted.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() || wanted.size() < 3) return best;
  for (const std::string& candidate : candidates) {
    if (begins_with(normalized(candidate), wanted) &&
        (best.empty() || candidate.size() < best.size()))
      best = candidate;
  }
  return best;
}

std::string offer(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return (near.empty() ? "" : "; nearest: " + near) + "; allowed: " + alternatives(known);
}

std::string foreign_name_advice(const std::string& name) {
  const std::string wanted = normalized(name);
  for (const auto& [advice, foreign_names] : translations()) {
    if (std::ranges::count(split(foreign_names, ' '), wanted) > 0) return advice;
  }
  return "";
}

std::string nearly_foreign_name_advice(const std::string& name) {
  constexpr size_t kSurelyMeant = 2;
  const std::string wanted = normalized(name);
  for (const auto& [advice, foreign_names] : translations()) {
    for (const std::string& foreign : split(foreign_names, ' ')) {
      if (foreign.size() > 5 && edit_distance(wanted, foreign) <= kSurelyMeant)
        return "perhaps " + foreign + "; " + advice;
    }
  }
  return "";
}

std::string nearest_value(const std::string& word,
                          const std::vector<std::string>& allowed) {
  static const std::map<std::string, std::string> others = {
      {"float32", "fp32"},  {"float", "fp32"}, {"float16", "fp16"}, {"half", "fp16"},
      {"bfloat16", "bf16"}, {"gpu", "cuda"},   {"full", "unit"},    {"false", "none"},
      {"off", "none"},      {"true", "all"},   {"on", "all"}};
  const auto other = others.find(word);
  const bool is_known =
      other != others.end() && std::ranges::count(allowed, other->second) > 0;
  if (is_known) return other->second;
  std::vector<std::string> words;  // "every:K" is none
  std::ranges::copy_if(allowed, std::back_inserter(words), [](const std::string& each) {
    return each.find(':') == each.npos;
  });
  const std::string near = nearest(word, words);
  const size_t most = std::max<size_t>(1, word.size() / 3);
  return edit_distance(word, near) <= most || begins_with(near, word) ? near : "";
}

}  // namespace zero::launcher
