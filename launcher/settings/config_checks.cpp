#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/options/check_options.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/name_advice.h"
#include "launcher/settings/names.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Conflicts = std::vector<Conflict>;

void add_if(bool is_wrong, Conflicts& found, std::vector<std::string> keys,
            std::string text) {
  if (is_wrong) found.push_back({std::move(keys), std::move(text)});
}

void check_hang(const Settings& s, Conflicts& found) {
  constexpr int64_t kShortest = 5;
  add_if(s.hang_timeout != 0 && s.hang_timeout < kShortest, found, {"hang_timeout"},
         fmt::format("hang_timeout is {}s; allowed: 0 (never), or {}s and more, as "
                     "answers take a second or two",
                     s.hang_timeout, kShortest));
}

void check_adapters(const Settings& s, Conflicts& found) {
  if (s.adapter.empty()) return;
  add_if(!s.lora.empty(), found, {"adapter", "lora"},
         "adapter and lora exclude each other: what adapter names says which layers have "
         "one");
}

// The nearest numbers of samples that `step` divides: "24 or 36".
std::string neighbours(int64_t batch, int64_t step) {
  const int64_t below = batch / step * step;
  return below == 0 ? fmt::format("{}", step)
                    : fmt::format("{} or {}", below, below + step);
}

std::string divisors_of(int64_t number) {
  std::vector<std::string> divisors;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(fmt::format("{}", i));
  return alternatives(divisors);
}

void check_batch(const Settings& s, int num_ranks, Conflicts& found) {
  const int64_t pass = s.micro_batch * num_ranks;
  if (s.global_batch % pass == 0) return;
  const std::string ranks =
      num_ranks == 1 ? "1 rank" : fmt::format("{} ranks", num_ranks);
  found.push_back(
      {{"global_batch", "micro_batch", "ranks"},
       s.global_batch < pass
           ? fmt::format("global_batch {} is too small for {} with micro_batch {}; "
                         "allowed: multiples of {}, a smaller micro_batch{}",
                         s.global_batch, ranks, s.micro_batch, pass,
                         num_ranks > 1 ? ", or fewer ranks" : "")
           : fmt::format("global_batch {} is no multiple of micro_batch {} x {} = {}; "
                         "nearest: {}",
                         s.global_batch, s.micro_batch, ranks, pass,
                         neighbours(s.global_batch, pass))});
}

bool is_changed(const Settings& s, const std::string& key) {
  const Setting* setting = find_setting(key);
  return setting->value(s) != setting->value(Settings());
}

// What was set for an optimizer that does not read it.
void check_optimizer(const Settings& s, Conflicts& found) {
  for (const auto& [key, readers] : readers_of_constants())
    add_if(is_changed(s, key) && std::ranges::count(readers, s.optimizer) == 0, found,
           {key, "optimizer"},
           fmt::format("{} belongs to optimizer {}, not to {}", key,
                       alternatives(readers), s.optimizer));
}

// A run that goes on may have a tokenizer of its own.
void check_texts(const Settings& s, const ConfigContext& context, Conflicts& found) {
  add_if(
      s.bytes && !s.tokenizer.empty(), found, {"bytes", "tokenizer"},
      "bytes learns the bytes of files, tokenizer makes tokens of them: leave one out");
  const bool begins = context.is_complete && !context.base && !context.going_on;
  const bool may_have_tokenizer = !s.tokenizer.empty() || !s.init_from.empty();
  if (!begins || may_have_tokenizer || s.bytes) return;
  for (const std::string key :
       {"separator", "train_on", "end_of_turn", "special_in_content", "too_long", "pack"})
    add_if(is_changed(s, key), found, {key},
           key +
               " needs a tokenizer (--tokenizer DIR, or --init-from a folder that has "
               "one)");
}

// What a run has held out it may train on only where that is overridden.
void check_held_out(const Settings& s, const ConfigContext& context, Conflicts& found) {
  const bool goes_on = context.base || context.going_on;
  add_if(!s.eval_data.empty() && s.eval_fraction > 0, found,
         {"eval_data", "eval_fraction"},
         fmt::format("eval_fraction {} holds out samples of data, and eval_data is there "
                     "to evaluate on; allowed: one of them{}",
                     s.eval_fraction,
                     goes_on ? " (--eval-fraction 0 --resume must --override "
                               "eval_fraction)"
                             : ""));
}

void check_device(const Settings& s, Conflicts& found) {
  add_if(s.tf32 && s.device == "cpu", found, {"tf32", "device"},
         "tf32 is for a GPU, and device is cpu: leave it out");
  add_if(s.tf32 && s.dtype != "fp32", found, {"tf32", "dtype"},
         "tf32 belongs to dtype fp32, not to " + s.dtype);
  add_if(s.share_gpu && s.device == "cpu", found, {"share_gpu", "device"},
         "share_gpu is for a GPU, device is cpu");
  add_if(s.offload == "none" && parse_fraction(s.device_state_fraction) != 0.0, found,
         {"device_state_fraction", "offload"},
         "device_state_fraction belongs to offload optimizer, all or auto: with none the "
         "GPU has all states");
  add_if(s.device_memory > 0 && s.device == "cpu", found, {"device_memory", "device"},
         "device_memory is a GPU's, device is cpu: host_memory limits what ranks take "
         "there");
}

// What the engine refuses, on GPUs where --device cpu does not say otherwise.
Conflicts refused_by_engine(const Settings& s, int num_ranks) {
  Options options = told_options(s);
  options.micro_batches_per_rank =
      std::max<int64_t>(1, s.global_batch / (s.micro_batch * num_ranks));
  const UnitMemory where = s.device == "cpu" ? UnitMemory::kHost : UnitMemory::kGpu;
  Conflicts found;
  for (const OptionProblem& problem : problems_of(options, num_ranks, where)) {
    Conflict& conflict = found.emplace_back();
    for (const std::string& option : problem.options) {
      for (const Setting& setting : setting_table())
        if (setting.option == option) conflict.keys.push_back(setting.key);
    }
    conflict.text = problem.what;
    if (!problem.allowed.empty()) conflict.text += "; allowed: " + problem.allowed;
  }
  return found;
}

void check_delays(const Settings& s, Conflicts& found) {
  static const std::vector<std::string> points = split(
      "forward backward update adam save comm.all_gather comm.reduce_scatter "
      "comm.all_reduce comm.broadcast comm.barrier comm.split comm.duplicate",
      ' ');
  for (const std::string& delay : s.delay) {
    if (const auto parsed = parse_delay(delay)) {
      add_if(std::ranges::count(points, parsed->first) == 0, found, {"delay"},
             "delay names the point " + parsed->first + offer(parsed->first, points));
    } else {
      found.push_back(
          {{"delay"},
           fmt::format("delay is \"{}\"; allowed: POINT=MILLISECONDS", delay)});
    }
  }
}

void check_overrides(const Settings& s, Conflicts& found) {
  for (const std::string& key : s.overrides)
    add_if(!find_setting(key), found, {"override"},
           fmt::format("override names \"{}\", which is no setting{}", key,
                       advice_for(key, key_of)));
}

void check_shape(const ModelFamily& family, const ModelShape& shape, Conflicts& found) {
  const int64_t heads = shape.heads(), kv_heads = shape.kv_heads();
  const bool has_head_dim = shape.integer("head_dim") > 0;
  if (heads > 0 && !has_head_dim && shape.dim() % heads != 0)
    found.push_back({{"dim", "heads"},
                     fmt::format("dim {} is no multiple of heads {}; nearest: dim {}",
                                 shape.dim(), heads, neighbours(shape.dim(), heads))});
  add_if(kv_heads > 0 && heads % kv_heads != 0, found, {"heads", "kv_heads"},
         fmt::format("heads {} is no multiple of kv_heads {}; allowed: {}", heads,
                     kv_heads, divisors_of(heads)));
  if (!found.empty() || !family.check) return;
  ModelShape with_vocab = shape;
  if (shape.vocab() == 0) with_vocab.set_vocab(1);  // the data's
  family.check(with_vocab);
}

// A model that comes with settings, not from a folder.
void check_new_model(const ModelFamily& family, const Settings& s, Conflicts& found) {
  Conflicts of_shape;
  try {
    refuse_of_other_task(family, s);
    check_shape(family, new_shape(family, s), of_shape);
  } catch (const Error& error) {
    found.push_back({{"model",     "preset",     "layers",     "dim",          "heads",
                      "kv_heads",  "ffn_dim",    "vocab",      "model_config", "parts",
                      "seq_len",   "augment",    "sync_bn",    "dropout",      "bytes",
                      "tokenizer", "loss_chunk", "accumulate", "sample",       "units"},
                     error.problem() + "; " + error.cure()});
  }
  found.insert(found.end(), of_shape.begin(), of_shape.end());
}

void check_model(const Settings& s, const ModelFamilies& models, Conflicts& found) {
  if (!s.init_from.empty()) {
    add_if(!s.preset.empty(), found, {"preset", "init_from"},
           "preset is for a new model: with init_from the weights' own config tells the "
           "shape");
    return;  // the folder tells all else
  }
  std::vector<std::string> known;
  const ModelFamily* family = find_family(models, s.model);
  if (!family) {
    for (const ModelFamily& each : models) known.push_back(each.name);
    found.push_back(
        {{"model"}, fmt::format("model is \"{}\"{}", s.model, offer(s.model, known))});
    return;
  }
  if (!find_preset(*family, s.preset)) {
    if (const ModelFamily* other = family_of_preset(models, s.preset)) {
      found.push_back({{"preset", "model"},
                       fmt::format("preset {} is a shape of model {}, and model is {}; "
                                   "allowed: with --model {}",
                                   s.preset, other->name, s.model, other->name)});
      return;
    }
    for (const ModelFamily& each : models)
      for (const auto& [name, config] : each.presets) known.push_back(name);
    const std::string near = nearest(s.preset, known);
    found.push_back({{"preset"},
                     fmt::format("preset is \"{}\"{}; allowed: those that zero_launch "
                                 "presets lists",
                                 s.preset, near.empty() ? "" : "; nearest: " + near)});
    return;
  }
  check_new_model(*family, s, found);
}

}  // namespace

std::vector<Conflict> find_rank_conflicts(const Settings& s, int num_ranks) {
  Conflicts found = refused_by_engine(s, num_ranks);
  std::erase_if(found, [](const Conflict& conflict) {
    return std::ranges::count(conflict.keys, "ranks") == 0;
  });
  check_batch(s, num_ranks, found);
  return found;
}

std::vector<Conflict> find_conflicts(const Settings& s, const ConfigContext& context) {
  Conflicts found;
  const bool trains = context.verb == "train" || context.verb == "plan";
  const bool starts = trains && context.is_complete;
  const bool evaluates_nothing =
      context.verb == "eval" && s.eval_data.empty() && s.eval_choices.empty();
  add_if((starts || evaluates_nothing) && s.data.empty(), found, {"data"},
         "data is missing; allowed: files or folders (--data PATH...)");
  add_if(starts && s.out.empty(), found, {"out"},
         "out is missing; allowed: a folder for this run (--out DIR)");
  const bool seeds = context.verb == "seed";
  add_if(seeds && s.out.empty(), found, {"out"},
         "out is missing; allowed: a folder without checkpoints (--out DIR)");
  add_if(seeds && !s.init_from.empty(), found, {"init_from"},
         "seed makes new weights; those of init_from are there");
  add_if(context.verb == "generate" && s.sample.empty() && s.sample_prompts.empty() &&
             !s.sample_interactive,
         found, {"sample"},
         "sample is missing; allowed: a text to be continued (--prompt TEXT), a file of "
         "them (--prompts FILE), or --interactive");
  if (context.models) check_model(s, *context.models, found);
  add_if(s.steps == 0 && s.epochs == 0, found, {"steps", "epochs"},
         "steps is 0, and so is epochs; allowed: one of them above 0");
  add_if(s.sample_repetition_penalty == 0, found, {"sample_repetition_penalty"},
         "sample_repetition_penalty is 0; allowed: a number above 0, with 1 for none");
  add_if(std::ranges::count(s.sample_stop, "") > 0, found, {"sample_stop"},
         "sample_stop has an empty text, which ends everything; leave it out");
  check_hang(s, found);
  check_adapters(s, found);
  check_delays(s, found);
  if (!trains) return found;
  add_if(!s.hosts.empty() && s.ranks == 0, found, {"hosts", "ranks"},
         "hosts says where ranks start, and not how many; allowed: with --ranks N");
  Conflicts refused = refused_by_engine(s, std::max(1, context.num_ranks));
  std::ranges::move(refused, std::back_inserter(found));
  check_optimizer(s, found);
  check_texts(s, context, found);
  check_device(s, found);
  check_held_out(s, context, found);
  for (const std::string key : {"eval_every", "eval_samples", "keep_best"})
    add_if(
        is_changed(s, key) && s.eval_data.empty() && s.eval_fraction == 0, found,
        {key, "eval_data", "eval_fraction"},
        key + " needs data to evaluate on (--eval-data PATH..., or --eval-fraction F)");
  const auto is_for = [&](const std::string& verb, const std::string& keys) {
    for (const std::string& key : split(keys, ' '))
      add_if(is_changed(s, key), found, {key},
             key + " is for zero_launch " + verb + "; leave it out");
  };
  is_for("generate",
         "sample_prompts sample_interactive sample_log_probs sample_count sample_batch");
  is_for("eval", "eval_choices eval_per_token");
  for (const std::string key :
       {"sample_every", "sample_tokens", "sample_temperature", "sample_greedy",
        "sample_top_k", "sample_top_p", "sample_min_p", "sample_repetition_penalty",
        "sample_ignore_eos", "sample_stop"})
    add_if(is_changed(s, key) && s.sample.empty(), found, {key, "sample"},
           key + " needs a text to be continued (--sample PROMPT)");
  check_overrides(s, found);
  if (context.num_ranks > 0) check_batch(s, context.num_ranks, found);
  return found;
}

}  // namespace zero::launcher
