#include "launcher/settings/names.h"

#include <algorithm>
#include <map>
#include <numeric>

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

const std::string kGlobalBatch =
    "here: global_batch, the samples of a step on all ranks together; the number of "
    "accumulated passes is "
    "global_batch / (micro_batch * ranks)";
const std::string kMicroBatch = "here: micro_batch, the samples of one kernel pass";
const std::string kSteps = "here: steps, the number of updates";
const std::string kRecompute = "here: recompute = \"unit\", which is the default";
const std::string kDtype = "here: dtype = \"bf16\" or \"fp32\"";
const std::string kAlwaysSharded =
    "not needed: weights, gradients and optimizer state are always sharded over ranks";
const std::string kAlwaysOnHost =
    "not needed: masters and optimizer state always live in host memory";
const std::string kRanks = "here: mpirun -n RANKS zero_launch ...";

// Names from PyTorch FSDP, DeepSpeed, Hugging Face's Trainer, fairseq, Megatron-LM and
// nanoGPT.
const std::map<std::string, std::string>& foreign_names() {
  static const std::map<std::string, std::string> names = {
      {"gradient_accumulation_steps", kGlobalBatch},
      {"update_freq", kGlobalBatch},
      {"train_batch_size", kGlobalBatch},
      {"global_batch_size", kGlobalBatch},
      {"batch_size", kGlobalBatch},
      {"per_device_train_batch_size", kMicroBatch},
      {"train_micro_batch_size_per_gpu", kMicroBatch},
      {"micro_batch_size", kMicroBatch},
      {"per_device_eval_batch_size", kMicroBatch},
      {"max_steps", kSteps},
      {"max_update", kSteps},
      {"max_iters", kSteps},
      {"train_iters", kSteps},
      {"num_train_epochs", kSteps + "; the banner of a run tells how many make an epoch"},
      {"max_epoch", kSteps + "; the banner of a run tells how many make an epoch"},
      {"learning_rate", "here: lr"},
      {"lr_scheduler", "here: schedule"},
      {"lr_scheduler_type", "here: schedule"},
      {"lr_decay_style", "here: schedule"},
      {"warmup_updates", "here: warmup_steps"},
      {"warmup_iters", "here: warmup_steps"},
      {"warmup_ratio", "here: warmup_steps"},
      {"adam_betas", "here: betas"},
      {"adam_beta1", "here: betas, both in one"},
      {"adam_beta2", "here: betas, both in one"},
      {"beta1", "here: betas, both in one"},
      {"beta2", "here: betas, both in one"},
      {"adam_eps", "here: eps"},
      {"adam_epsilon", "here: eps"},
      {"max_grad_norm", "here: clip"},
      {"gradient_clipping", "here: clip"},
      {"clip_grad", "here: clip"},
      {"grad_clip", "here: clip"},
      {"clip_norm", "here: clip"},
      {"checkpoint_activations", kRecompute},
      {"gradient_checkpointing", kRecompute},
      {"activation_checkpointing", kRecompute},
      {"recompute_activations", kRecompute},
      {"fp16", kDtype},
      {"bf16", kDtype},
      {"mixed_precision", kDtype},
      {"precision", kDtype},
      {"torch_dtype", kDtype},
      {"zero_optimization", kAlwaysSharded},
      {"zero_stage", kAlwaysSharded},
      {"fsdp", kAlwaysSharded},
      {"ddp_backend", kAlwaysSharded},
      {"sharding_strategy", kAlwaysSharded + "; see reshard_after_forward"},
      {"cpu_offload", kAlwaysOnHost},
      {"offload_optimizer", kAlwaysOnHost},
      {"offload_param", kAlwaysOnHost},
      {"nproc_per_node", kRanks},
      {"num_gpus", kRanks},
      {"world_size", kRanks},
      {"min_num_params", "here: wrap_min_numel"},
      {"output_dir", "here: out"},
      {"out_dir", "here: out"},
      {"save_dir", "here: out"},
      {"save", "here: out"},
      {"save_steps", "here: save_every"},
      {"save_interval", "here: save_every"},
      {"save_total_limit", "here: keep"},
      {"logging_steps", "here: log_every"},
      {"log_interval", "here: log_every"},
      {"eval_steps", "here: eval_every"},
      {"eval_interval", "here: eval_every"},
      {"eval_iters", "here: eval_samples"},
      {"resume_from_checkpoint", "here: resume"},
      {"restore_file", "here: resume"},
      {"load", "here: resume"},
      {"tokens_per_sample", "here: seq_len"},
      {"max_seq_length", "here: seq_len"},
      {"seq_length", "here: seq_len"},
      {"block_size", "here: seq_len"},
      {"n_positions", "here: seq_len"},
      {"n_layer", "here: layers"},
      {"num_layers", "here: layers"},
      {"num_hidden_layers", "here: layers"},
      {"n_embd", "here: dim"},
      {"hidden_size", "here: dim"},
      {"n_head", "here: heads"},
      {"num_heads", "here: heads"},
      {"num_attention_heads", "here: heads"},
      {"num_key_value_heads", "here: kv_heads"},
      {"intermediate_size", "here: ffn_dim"},
      {"vocab_size", "here: vocab"},
      {"padded_vocab_size", "here: vocab"},
  };
  return names;
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
  return best;
}

std::string foreign_name_advice(const std::string& name) {
  const auto found = foreign_names().find(normalized(name));
  return found == foreign_names().end() ? "" : found->second;
}

}  // namespace zero::launcher
