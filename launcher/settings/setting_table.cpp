// The table itself: to add a setting, add a member to settings.h and a line here.
#include "launcher/settings/setting_table.h"

#include <algorithm>
#include <limits>

#include "launcher/settings/setting_kinds.h"
#include "zero/loss_scale.h"

namespace zero::launcher {
namespace {

constexpr int64_t kMany = std::numeric_limits<int64_t>::max();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// ---- group by group

using Group = std::vector<Setting>;

Group model() {
  return {
      text("model", &Settings::model, "NAME", "family of models"),
      text("preset", &Settings::preset, "NAME",
           "a shape of the family by name; empty: its default"),
      text("init_from", &Settings::init_from, "DIR",
           "start from weights that are there, with their family and shape: a folder of "
           "Hugging Face, what seed has written, a run or one of its steps"),
      integer("layers", &Settings::layers, 0, 1 << 14, "blocks; 0: the preset's"),
      integer("dim", &Settings::dim, 0, 1 << 24, "width; 0: the preset's"),
      integer("heads", &Settings::heads, 0, 1 << 16, "attention heads; 0: the preset's"),
      integer("kv_heads", &Settings::kv_heads, 0, 1 << 16,
              "heads of keys and values; 0: the preset's"),
      integer("ffn_dim", &Settings::ffn_dim, 0, 1 << 26,
              "width of the feed-forward layer; 0: the preset's"),
      integer("vocab", &Settings::vocab, 0, 1 << 30,
              "vocabulary; 0: the preset's, else the data's"),
      list("model_config", &Settings::model_config, "KEY=VALUE",
           "other keys of the model's config, named as in its config.json"),
      number("dropout", &Settings::dropout, 1,
             "fraction of activations dropped in training"),
  };
}

Group data() {
  return {
      list("data", &Settings::data, "PATH",
           "text files, folders of them, or token files"),
      boolean("bytes", &Settings::bytes,
              "learn the bytes of any file, also of what is no text"),
      integer("seq_len", &Settings::seq_len, 0, 1 << 24,
              "tokens of a sample; 0: the preset's"),
      boolean("shuffle", &Settings::shuffle, "a new order of samples in every epoch"),
      list("eval_data", &Settings::eval_data, "PATH", "data for the evaluation loss"),
      integer("eval_every", &Settings::eval_every, 0, kMany,
              "steps between evaluations; 0: at the end only"),
      integer("eval_samples", &Settings::eval_samples, 0, kMany,
              "samples of an evaluation; 0: all"),
  };
}

Group batch() {
  return {
      integer("global_batch", &Settings::global_batch, 1, 1 << 30,
              "samples of a step, all ranks together"),
      integer("micro_batch", &Settings::micro_batch, 1, 1 << 24,
              "samples of one kernel pass"),
      choice("accumulate", &Settings::accumulate, {"model", "unit"},
             "model: a pass through the model per micro-batch; unit: weights gathered "
             "once per step"),
      integer(
          "loss_chunk", &Settings::loss_chunk, 0, 1 << 30,
          "tokens whose logits the loss makes at once, with less memory and a loss that "
          "is the same but for rounding; 0: all"),
  };
}

Group optimizer() {
  return {
      choice("optimizer", &Settings::optimizer, {"adamw", "sgd", "lion", "adagrad"},
             "the update rule"),
      number("lr", &Settings::lr, kInfinite, "learning rate"),
      number("min_lr", &Settings::min_lr, kInfinite,
             "learning rate at the end of linear, cosine and wsd"),
      choice("schedule", &Settings::schedule, {"constant", "linear", "cosine", "wsd"},
             "course of the learning rate; wsd: warm up, stay, decay"),
      integer("warmup_steps", &Settings::warmup_steps, 0, kMany,
              "steps in which the rate rises"),
      integer("decay_steps", &Settings::decay_steps, 0, kMany,
              "last steps of wsd; 0: a fifth of all"),
      two_fractions(
          "betas", &Settings::betas,
          "decay of the moments of adamw and lion, whose authors take 0.9,0.99"),
      number("eps", &Settings::eps, kInfinite,
             "added to the root in adamw and adagrad, for which torch takes 1e-10"),
      number("momentum", &Settings::momentum, 1, "of sgd"),
      boolean("nesterov", &Settings::nesterov, "sgd with Nesterov's momentum"),
      number("weight_decay", &Settings::weight_decay, kInfinite,
             "weight decay: decoupled in adamw and lion, part of the gradient in sgd and "
             "adagrad"),
      choice("weight_decay_on", &Settings::weight_decay_on, {"matrices", "all"},
             "matrices: parameters with two or more dimensions"),
      number("clip", &Settings::clip, kInfinite,
             "largest norm of the gradient; 0: no clipping"),
      list("freeze", &Settings::freeze, "GLOB",
           "parameters that stay as they are, by name"),
  };
}

Group run() {
  return {
      integer("ranks", &Settings::ranks, 0, 99999,
              "start so many, under an mpirun of its own; 0: this process, or those that "
              "mpirun or srun has started"),
      text("hosts", &Settings::hosts, "FILE", "with ranks: the hosts, one a line"),
      integer("steps", &Settings::steps, 1, kMany,
              "updates in all, those before a resume included"),
      integer("seed", &Settings::seed, 0, kMany,
              "of weights, dropout, sample order and generated text"),
      boolean("deterministic", &Settings::deterministic,
              "the same bits on 1, 2, 4, ... ranks"),
      choice("device", &Settings::device, {"auto", "cpu", "cuda"},
             "where the model is computed"),
      boolean("share_gpu", &Settings::share_gpu,
              "let ranks compute on one GPU where there are fewer GPUs than ranks"),
      integer("threads", &Settings::threads, 0, 4096,
              "of the model, per rank; 0: those of the checkpoint, else a fair share of "
              "the cores, 1 with deterministic"),
      integer(
          "adam_threads", &Settings::adam_threads, 0, 4096,
          "of the optimizer; 0: as few as move its bytes fastest, measured at the start"),
      boolean("bind", &Settings::bind,
              "give a rank pinned to one core its fair share of the node"),
      duration("time_limit", &Settings::time_limit,
               "save and stop when so much time has passed, in Slurm's forms: a bare "
               "number is "
               "minutes; 0: never"),
      integer("max_bad_steps", &Settings::max_bad_steps, 0, kMany,
              "steps in a row with a loss or gradient that is not finite, before the run "
              "fails; in fp16 those at the smallest loss scale; 0: never"),
      span("hang_timeout", &Settings::hang_timeout,
           "how long ranks may wait for one that gives no sign of work; after 30s it is "
           "named; 0: for ever"),
      size("host_memory", &Settings::host_memory,
           "memory of each host that its ranks may take; 0: what is free"),
      size("device_memory", &Settings::device_memory,
           "memory of each GPU that its ranks may take; 0: what is free"),
      boolean("ignore_plan", &Settings::ignore_plan,
              "start even where the plan says that memory does not suffice"),
  };
}

Group precision() {
  return {
      boolean("tf32", &Settings::tf32,
              "let GPUs take fp32 factors of products at 10 bits, which is faster"),
      choice("dtype", &Settings::dtype, {"fp32", "bf16", "fp16"},
             "weights and activations; masters are always fp32; fp16 scales the loss"),
      choice("reduce_dtype", &Settings::reduce_dtype, {"fp32", "bf16"},
             "gradients between ranks; sums are fp32"),
      choice("grad_dtype", &Settings::grad_dtype, {"fp32", "bf16"},
             "the step's gradient as norm and optimizer read it; bf16 takes half the "
             "memory where a rank has one micro-batch a step"),
      choice(
          "master", &Settings::master, {"fp32", "split"},
          "how masters lie beside the bf16 copy; split: it is their high half, 2 bytes "
          "a parameter less, nothing lost"),
      choice("state_dtype", &Settings::state_dtype, {"fp32", "bf16"},
             "the optimizer's state in memory; bf16 takes half, and is rounded in each "
             "step"),
      integer("loss_scale_init", &Settings::loss_scale_init, 1, kLargestLossScale,
              "what the loss of fp16 is multiplied with at first, a power of two; a step "
              "whose gradient overflows is skipped and halves it"),
      integer("loss_scale_window", &Settings::loss_scale_window, 1, kMany,
              "steps in a row without an overflow after which it doubles"),
      integer("loss_scale_min", &Settings::loss_scale_min, 1, kLargestLossScale,
              "the smallest one, a power of two"),
  };
}

Group sharding() {
  return {
      boolean("reshard_after_forward", &Settings::reshard_after_forward,
              "release weights between forward and backward"),
      integer("prefetch", &Settings::prefetch, 0, 64, "units gathered ahead"),
      boolean("overlap_updates", &Settings::overlap_updates,
              "update each unit while the next step's forward runs"),
      recomputation("recompute", &Settings::recompute,
                    "unit: activations are made again in backward; every:K: those of the "
                    "first unit and each K-th after it; none: all are kept"),
      boolean("offload_activations", &Settings::offload_activations,
              "on a GPU: keep the inputs of recomputed units in host memory until their "
              "backward"),
      choice("offload", &Settings::offload, {"auto", "none", "optimizer", "all"},
             "what stays in host memory where a GPU computes: nothing; masters and the "
             "optimizer's state; all, weights too; auto: what is fastest of those that "
             "fit. No number changes"),
      fraction_or_auto("device_state_fraction", &Settings::device_state_fraction,
                       "of the parameters: the first units with so many have masters "
                       "and states on the GPU whatever offload says; auto: as many as "
                       "fit"),
      choice(
          "pin", &Settings::pin, {"all", "transfers"},
          "what of the shards in host memory is pinned for a GPU; transfers: only what "
          "its copies touch, where a host does not let all be pinned. No number "
          "changes"),
      integer("wrap_min_numel", &Settings::wrap_min_numel, 0, kMany,
              "units with fewer parameters are merged into the one around them"),
  };
}

Group output() {
  return {
      text("out", &Settings::out, "DIR", "the run's folder: checkpoints and metrics"),
      interval("save_every", &Settings::save_every,
               "steps or time between checkpoints, a time stretched so that saves take "
               "at most 5% of it; 0: at the end only"),
      integer("keep", &Settings::keep, 0, 1 << 20, "whole checkpoints kept; 0: all"),
      integer("keep_every", &Settings::keep_every, 0, kMany,
              "checkpoints of steps that are multiples of it stay for ever; 0: none"),
      text("resume", &Settings::resume, "auto|must|never|DIR",
           "continue from the newest checkpoint, or from DIR"),
      list("override", &Settings::overrides, "KEY",
           "settings that may differ from the checkpoint's"),
      list("allow_missing", &Settings::allow_missing, "GLOB",
           "parameters that a checkpoint need not have; they start as new ones"),
      list("allow_extra", &Settings::allow_extra, "GLOB",
           "parameters of a checkpoint that the model need not have"),
      boolean("take_over", &Settings::take_over,
              "take the run from a job on another host that is gone without a word"),
      choices("metrics", &Settings::metrics, {"jsonl", "csv", "tensorboard"},
              "formats of the metrics; jsonl is always written"),
      integer("log_every", &Settings::log_every, 1, kMany,
              "steps between lines on the screen"),
      step_range("trace", &Settings::trace,
                 "write what each thread of each rank did in these steps, for "
                 "chrome://tracing and Perfetto"),
      text("init_report", &Settings::init_report, "FILE",
           "write who gave each parameter its first values, and what they are"),
      text("sample", &Settings::sample, "PROMPT",
           "text that the model continues, at the end and with sample_every before"),
      integer("sample_every", &Settings::sample_every, 0, kMany,
              "steps between such continuations; 0: at the end only"),
      integer("sample_tokens", &Settings::sample_tokens, 0, 1 << 20,
              "tokens of that continuation"),
      number("sample_temperature", &Settings::sample_temperature, kInfinite,
             "0: always the likeliest token"),
  };
}

Group tests() {
  return {
      text("dump_state", &Settings::dump_state, "DIR",
           "write masters, moments and losses at the end, bit for bit"),
      text("trace_comm", &Settings::trace_comm, "FILE", "write one line per collective"),
      list("delay", &Settings::delay, "POINT=MS", "make points of the code slow"),
      integer("chaos", &Settings::chaos, 0, kMany,
              "seed of random delays in every stream; 0: none"),
  };
}

// ---- all of them

// A resumed run that differs in one of these would be another run.
bool defines_run(const Setting& setting) {
  static const std::vector<std::string> groups = {"model", "optimizer", "precision"};
  static const std::vector<std::string> others = {"data", "seq_len", "shuffle",
                                                  "global_batch", "seed"};
  return std::ranges::count(groups, setting.group) > 0 ||
         std::ranges::count(others, setting.key) > 0;
}

void add(std::vector<Setting>& table, const std::string& group, Group settings) {
  for (Setting& setting : settings) {
    setting.group = group;
    setting.defines_run = defines_run(setting);
    table.push_back(std::move(setting));
  }
}

std::vector<Setting> make_table() {
  std::vector<Setting> table;
  add(table, "model", model());
  add(table, "data", data());
  add(table, "batch", batch());
  add(table, "optimizer", optimizer());
  add(table, "run", run());
  add(table, "precision", precision());
  add(table, "sharding", sharding());
  add(table, "output", output());
  add(table, "tests", tests());
  return table;
}

}  // namespace

const std::vector<Setting>& setting_table() {
  static const std::vector<Setting> table = make_table();
  return table;
}

const Setting* find_setting(const std::string& key) {
  const auto& table = setting_table();
  const auto found = std::ranges::find(table, key, &Setting::key);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace zero::launcher
