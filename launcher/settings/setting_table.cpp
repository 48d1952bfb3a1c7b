#include "launcher/settings/setting_table.h"

#include <algorithm>
#include <utility>

#include "launcher/settings/rules.h"
#include "launcher/settings/setting_groups.h"
#include "launcher/settings/values.h"
#include "zero/loss_scale.h"
#include "zero/options.h"

// The table itself, with data_settings.cpp: to add a setting, add a member to settings.h,
// a line here or there, and a row in derived_test.cpp. Rules between settings are the
// engine's where it reads both (check_options.cpp), else in config_checks.cpp.
namespace zero::launcher {
namespace {

// ---- group by group

Group batch() {
  return {
      integer(KEY(global_batch), 1, 1 << 30, "samples of a step, all ranks together"),
      integer(KEY(micro_batch, "micro_batch"), 1, 1 << 24, "samples of one kernel pass"),
      choice(KEY(accumulate), {"auto", "model", "unit"},
             "model: a pass through the model per micro-batch; unit: weights gathered "
             "once per step; auto: unit where weights stream to a GPU in several passes "
             "and it fits, else model",
             TO_BEHIND_AUTO(accumulate)),
      integer(KEY(loss_chunk), 0, 1 << 30,
              "tokens whose logits the loss makes at once, with less memory and a loss "
              "that is the same but for rounding; 0: all"),
  };
}

Group optimizer() {
  return {
      choice(KEY(optimizer, AS(optimizer.kind, optimizer_named)),
             {"adamw", "sgd", "lion", "adagrad"}, "the update rule"),
      number(KEY(lr, TO(schedule.lr)), kInfinite, "learning rate"),
      number(KEY(min_lr, TO(schedule.min_lr)), kInfinite,
             "learning rate at the end of linear, cosine and wsd"),
      choice(KEY(schedule), {"constant", "linear", "cosine", "wsd"},
             "course of the learning rate; wsd: warm up, stay, decay", TO(schedule.kind)),
      integer(
          KEY(warmup_steps, TO(schedule.warmup_steps)), -1, kMany,
          "steps in which the rate rises; -1, which is the default: 2% of steps, with "
          "constant none"),
      integer(KEY(decay_steps, TO(schedule.decay_steps)), 0, kMany,
              "last steps of wsd; 0: a fifth of all"),
      two_fractions(
          KEY(betas, "optimizer.betas",
              [](Options& o, const auto& betas) {
                o.optimizer.beta1 = betas[0];
                o.optimizer.beta2 = betas[1];
              }),
          "decay of the moments of adamw and lion, whose authors take 0.9,0.99"),
      number(KEY(eps, TO(optimizer.eps)), kInfinite,
             "added to the root in adamw and adagrad, for which torch takes 1e-10"),
      number(KEY(momentum, TO(optimizer.momentum)), 1, "of sgd"),
      boolean(KEY(nesterov, TO(optimizer.nesterov)), "sgd with Nesterov's momentum"),
      number(KEY(weight_decay, TO(optimizer.weight_decay)), kInfinite,
             "weight decay: decoupled in adamw and lion, part of the gradient in sgd and "
             "adagrad"),
      choice(KEY(weight_decay_on), {"matrices", "all"},
             "matrices: parameters with two or more dimensions", TO(weight_decay_on)),
      number(KEY(clip, TO(clip)), kInfinite,
             "largest norm of the gradient; 0: no clipping"),
      list(KEY(freeze, "groups",
               [](Options& o, const auto& globs) {
                 for (const std::string& glob : globs)
                   o.groups.push_back({.pattern = glob, .frozen = true});
               }),
           "GLOB", "parameters that stay as they are, by name"),
      rules(KEY(group, "groups",
                [](Options& o, const auto& rules) {
                  for (const std::string& rule : rules)
                    if (const auto group = parse_group(rule)) o.groups.push_back(*group);
                }),
            "\"GLOB: lr=0.1x weight_decay=0 freeze\", one of the three at least",
            "what holds for parameters by name, as \"GLOB: lr=0.1x weight_decay=0 "
            "freeze\"; the first that matches counts, and plan tells what each has",
            [](const std::string& rule) { return !!parse_group(rule); }),
      rules(KEY(unfreeze_at, "thaws",
                [](Options& o, const auto& rules) {
                  for (const std::string& rule : rules)
                    if (const auto thaw = parse_thaw(rule))
                      o.thaws.push_back(thaw->pattern);
                }),
            "\"STEP:GLOB\", such as \"1000:model.layers.*\"",
            "parameters that are frozen until so many steps are done, by name, as "
            "\"STEP:GLOB\", whatever freeze says",
            [](const std::string& rule) { return !!parse_thaw(rule); }),
      choice(KEY(unused), {"zeros", "leave"},
             "what a step does to a parameter that nothing used; zeros: weight decay and "
             "moments go on; leave: nothing, as torch",
             TO(unused)),
  };
}

Group run() {
  return {
      integer(KEY(ranks, "world_size"), 0, 99999,
              "start so many, on several hosts by mpirun; 0: this process, or those that "
              "mpirun or srun has started"),
      text(KEY(hosts), "FILE", "with ranks: the hosts, one a line"),
      integer(KEY(steps, TO(schedule.total_steps)), 0, kMany,
              "updates in all, those before a resume included; 0: as epochs says"),
      integer(KEY(epochs), 0, 1 << 20,
              "instead of steps: train on each sample so often; the last batch may be "
              "short; 0: as steps says"),
      integer(KEY(seed, TO(seed)), 0, kMany,
              "of weights, dropout, sample order and generated text"),
      boolean(KEY(deterministic, TO(deterministic)),
              "the same bits on 1, 2, 4, ... ranks"),
      choice(KEY(device), {"auto", "cpu", "cuda"}, "where the model is computed",
             TO(device)),
      boolean(KEY(share_gpu, TO(share_gpu)),
              "let ranks compute on one GPU where there are fewer GPUs than ranks"),
      integer(KEY(threads), 0, 4096,
              "of the model, per rank; 0: those of the checkpoint, else a fair share of "
              "the cores, 1 with deterministic"),
      integer(
          KEY(adam_threads, TO(adam_threads)), 0, 4096,
          "of the optimizer; 0: as few as move its bytes fastest, measured at the start"),
      boolean(KEY(bind), "give a rank pinned to one core its fair share of the node"),
      duration(KEY(time_limit),
               "save and stop when so much time has passed, in Slurm's forms: a bare "
               "number is minutes; 0: never"),
      integer(KEY(max_bad_steps), 0, kMany,
              "steps in a row with a loss or gradient that is not finite, before the run "
              "fails; in fp16 those at the smallest loss scale; 0: never"),
      span(KEY(hang_timeout),
           "how long ranks may wait for one that gives no sign of work; after 30s it is "
           "named; 0: for ever"),
      size(KEY(host_memory),
           "memory of each host that its ranks may take; 0: what is free"),
      size(KEY(device_memory, TO(device_memory)),
           "memory of each GPU that its ranks may take; 0: what is free"),
      boolean(KEY(ignore_plan),
              "start even where the plan says that memory does not suffice"),
  };
}

Group precision() {
  return {
      boolean(KEY(tf32, TO(tf32)),
              "let GPUs take fp32 factors of products at 10 bits, which is faster"),
      choice(KEY(dtype, AS(dtype, dtype_named)), {"fp32", "bf16", "fp16"},
             "weights and activations; masters are always fp32; fp16 scales the loss"),
      gradient_type(KEY(reduce_dtype, AS(reduce_dtype, dtype_named)),
                    "gradients between ranks; sums are fp32"),
      gradient_type(
          KEY(grad_dtype, AS(grad_dtype, dtype_named)),
          "the step's gradient as norm and optimizer read it; bf16 takes half the "
          "memory where a rank has one micro-batch a step"),
      choice(KEY(master), {"fp32", "split"},
             "how masters lie beside the bf16 copy; split: it is their high half, 2 "
             "bytes a parameter less, nothing lost",
             TO(master)),
      choice(KEY(state_dtype, AS(state_dtype, dtype_named)), {"fp32", "bf16"},
             "the optimizer's state in memory; bf16 takes half, and is rounded in each "
             "step"),
      choice(KEY(frozen_dtype), {"auto", "fp32", "bf16", "fp16", "int8"},
             "frozen weights in memory, rounded once and converted where they are "
             "computed with in another type; auto: as they are on disk",
             "frozen_dtype",
             [](Options& o, size_t word) {
               constexpr DType kMeant[] = {DType::kFp32, DType::kFp32, DType::kBf16,
                                           DType::kFp16, DType::kInt8};
               o.frozen_dtype = kMeant[word];
             }),
      rules(
          KEY(unit, "unit_options",
              [](Options& o, const auto& rules) {
                for (const std::string& rule : rules)
                  if (const auto option = parse_unit(rule))
                    o.unit_options.push_back(*option);
              }),
          "\"GLOB: dtype=fp32|bf16 reshard=true|false offload=none|optimizer|all\", one "
          "of the three at least",
          "what holds for units by name, as \"h.0: dtype=fp32 reshard=false "
          "offload=none\"; (root) is what is outside of units",
          [](const std::string& rule) { return !!parse_unit(rule); }),
      integer(KEY(loss_scale_init, TO(loss_scale.init)), 1, kLargestLossScale,
              "what the loss of fp16 is multiplied with at first, a power of two; a step "
              "whose gradient overflows is skipped and halves it"),
      integer(KEY(loss_scale_window, TO(loss_scale.window)), 1, kMany,
              "steps in a row without an overflow after which it doubles"),
      integer(KEY(loss_scale_min, TO(loss_scale.min)), 1, kLargestLossScale,
              "the smallest one, a power of two"),
  };
}

Group sharding() {
  return {
      choice(KEY(units), {"layer", "sublayer"},
             "what is gathered together: a layer; its attention, then its feed-forward. "
             "No number changes, but for what dropout drops"),
      word(
          KEY(shard_over, AS(shard_ranks, parse_shard_over)),
          {RawValue::Type::kWords, "all|host|N", "all, host, or a number of ranks from 1",
           "ranks that hold the weights together and gather them from each other: all; "
           "those of a host, so that little travels between hosts; or so many "
           "neighbours. Optimizer state is sharded over all in any case"},
          [](const std::string& word) { return !!parse_shard_over(word); }),
      boolean(KEY(reshard_after_forward, TO(reshard_after_forward)),
              "release weights between forward and backward"),
      word(KEY(prefetch, AS(prefetch, parse_prefetch)),
           {RawValue::Type::kWords, "auto|N", "auto, or an integer from 0 to 64",
            "units gathered ahead; auto: one, if memory suffices, else none"},
           [](const std::string& word) { return !!parse_prefetch(word); }),
      boolean(KEY(overlap_updates, TO(overlap_updates)),
              "update each unit while the next step's forward runs"),
      word(KEY(recompute, AS(recompute.every, parse_recompute)),
           {RawValue::Type::kString, "unit|none|every:K",
            "unit, none or every:K with K from 1 to 1048576",
            "unit: activations are made again in backward; every:K: those of the first "
            "unit and each K-th after it; none: all are kept"},
           [](const std::string& word) { return !!parse_recompute(word); }),
      boolean(KEY(offload_activations, TO(offload_activations)),
              "on a GPU: keep the inputs of recomputed units in host memory until their "
              "backward"),
      choice(KEY(offload), {"auto", "none", "optimizer", "all"},
             "what stays in host memory where a GPU computes: nothing; masters and the "
             "optimizer's state; all, weights too; auto: what is fastest of those that "
             "fit. No number changes",
             "offload",
             [](Options& o, size_t word) {
               constexpr Offload kMeant[] = {Offload::kAll, Offload::kNone,
                                             Offload::kOptimizer, Offload::kAll};
               o.offload = kMeant[word];
             }),
      choice(KEY(grad_sums), {"auto", "host", "device"},
             "where a step's passes are added up whose state is in host memory: there, "
             "or on the GPU, which then sends each gradient once; auto: on the GPU where "
             "they fit. No number changes",
             TO_BEHIND_AUTO(grad_sums)),
      word(
          KEY(device_state_fraction, AS(device_state_fraction, parse_fraction)),
          {RawValue::Type::kWords, "F|auto", "a number from 0 to 1, or auto",
           "of the parameters: the first units with so many have masters and states on "
           "the GPU whatever offload says; auto: as many as fit"},
          [](const std::string& word) { return word == "auto" || parse_fraction(word); }),
      word(KEY(speculate, AS(speculate_bytes, parse_size_or_off)),
           {RawValue::Type::kWords, "auto|off|SIZE",
            "auto, off, or an amount with its unit, such as 16GiB or 512MiB",
            "host memory of a rank for updates that are made while backward is at other "
            "units, and thrown away where the gradient is clipped; auto: what a machine "
            "with a GPU has left. No number changes"},
           [](const std::string& word) {
             return word == "auto" || parse_size_or_off(word);
           }),
      choice(
          KEY(pin), {"all", "transfers"},
          "what of the shards in host memory is pinned for a GPU; transfers: only what "
          "its copies touch, where a host does not let all be pinned. No number changes",
          TO(pin)),
      integer(KEY(wrap_min_numel, TO(auto_wrap.min_numel)), 0, kMany,
              "units with fewer parameters are merged into the one around them"),
  };
}

Group output() {
  return {
      text(KEY(out), "DIR", "the run's folder: checkpoints and metrics"),
      interval(KEY(save_every),
               "steps or time between checkpoints, a time stretched so that saves cost "
               "at most 5% of it; 0: at the end only"),
      choice(KEY(save), {"async", "sync"},
             "async: a checkpoint is written beside the steps that follow; sync: they "
             "wait"),
      choice(KEY(on_save_error), {"stop", "continue"},
             "continue: a save that fails is a warning, and the next one tries again"),
      boolean(KEY(save_at_end),
              "save the last step, too; a run that is asked to stop saves in any case"),
      boolean(KEY(save_frozen),
              "false: checkpoints are without frozen weights, and tell which those of "
              "--init-from are; there they must stay"),
      integer(KEY(keep), 0, 1 << 20, "whole checkpoints kept; 0: all"),
      integer(KEY(keep_every), 0, kMany,
              "checkpoints of steps that are multiples of it stay for ever; 0: none"),
      boolean(KEY(keep_best),
              "save at each evaluation with a lower loss than all before, and keep that "
              "checkpoint until another is the best; the file best names it"),
      text(KEY(resume), "auto|must|never|DIR",
           "continue from the newest checkpoint, or from DIR"),
      list({"override", &Settings::overrides}, "KEY",
           "settings that may differ from the checkpoint's"),
      list(KEY(allow_missing), "GLOB",
           "parameters that a checkpoint need not have; they start as new ones"),
      list(KEY(allow_extra), "GLOB",
           "parameters of a checkpoint that the model need not have"),
      boolean(KEY(take_over),
              "take the run from a job on another host that is gone without a word"),
      choices(KEY(metrics), {"jsonl", "csv", "tensorboard"},
              "formats of the metrics; jsonl is always written"),
      integer(KEY(log_every), 1, kMany, "steps between lines on the screen"),
      step_range(KEY(trace),
                 "write what each thread of each rank did in these steps, for "
                 "chrome://tracing and Perfetto"),
      text(KEY(init_report), "FILE",
           "write who gave each parameter its first values, and what they are"),
      text(KEY(eval_choices), "FILE",
           "questions that eval asks instead of data: JSONL with prompt, choices and "
           "answer"),
      boolean(KEY(eval_per_token), "eval tells the log probability of each token"),
      text(KEY(sample), "PROMPT",
           "text that the model continues, at the end and with sample_every before"),
      integer(KEY(sample_every), 0, kMany,
              "steps between such continuations; 0: at the end only"),
      integer(KEY(sample_tokens), 0, 1 << 20, "tokens of that continuation"),
      text(KEY(sample_prompts), "FILE",
           "prompts that generate continues: lines, or JSONL with prompt or messages"),
      boolean(KEY(sample_interactive),
              "generate answers what is typed, line by line; a conversation where the "
              "model has a chat template"),
      integer(KEY(sample_count), 1, 1 << 20, "texts that generate makes of a prompt"),
      integer(KEY(sample_batch), 1, 1 << 20, "texts that a pass of generate continues"),
      number(KEY(sample_temperature), kInfinite, "0: always the likeliest token"),
      boolean(KEY(sample_greedy), "always the likeliest token, whatever else is said"),
      integer(KEY(sample_top_k), 0, 1 << 30,
              "draw from so many of the likeliest tokens; 0: from all"),
      share(KEY(sample_top_p), "draw from the likeliest that have this share together"),
      share(KEY(sample_min_p), "draw from those with this share of the likeliest one's"),
      number(KEY(sample_repetition_penalty), kInfinite,
             "divide the logits of tokens that the text has by it, or multiply what is "
             "below 0; 1: do not"),
      list(KEY(sample_stop), "TEXT", "end a continuation before one of these texts"),
      boolean(KEY(sample_ignore_eos), "go on behind a token that ends texts"),
      boolean(KEY(sample_log_probs), "tell the log probability of each token"),
  };
}

Group tests() {
  return {
      text(KEY(dump_state), "DIR",
           "write masters, moments and losses at the end, bit for bit"),
      text(KEY(trace_comm, TO(trace_comm)), "FILE",
           "a new file with one line per collective; FILE.RANK of several ranks"),
      list(KEY(delay), "POINT=MS", "make points of the code slow"),
      integer(KEY(chaos, TO(chaos_seed)), 0, kMany,
              "seed of random delays in every stream; 0: none"),
  };
}

// ---- all of them

// A resumed run that differs in one of these would be another run.
bool defines_run(const Setting& setting) {
  if (setting.key == "frozen_dtype") return false;  // differences() looks closer
  static const std::vector<std::string> groups = {"model", "optimizer", "precision"};
  static const std::vector<std::string> others = {
      "data",    "too_long",      "pack",         "seq_len", "shuffle",
      "augment", "eval_fraction", "global_batch", "seed"};
  return std::ranges::count(groups, setting.group) > 0 ||
         std::ranges::count(others, setting.key) > 0;
}

std::vector<Setting> make_table() {
  const std::pair<const char*, Group> groups[] = {{"model", model_settings()},
                                                  {"data", data_settings()},
                                                  {"batch", batch()},
                                                  {"optimizer", optimizer()},
                                                  {"run", run()},
                                                  {"precision", precision()},
                                                  {"sharding", sharding()},
                                                  {"output", output()},
                                                  {"tests", tests()}};
  std::vector<Setting> table;
  for (const auto& [name, settings] : groups) {
    for (Setting setting : settings) {
      setting.group = name;
      setting.defines_run = defines_run(setting);
      table.push_back(std::move(setting));
    }
  }
  return table;
}

}  // namespace

const std::vector<Setting>& setting_table() {
  static const std::vector<Setting> table = make_table();
  return table;
}

}  // namespace zero::launcher
