#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "launcher/settings/names.h"
#include "launcher/settings/values.h"
#include "zero/loss_scale.h"

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

void check_ranks(const Settings& s, int num_ranks, Conflicts& found) {
  check_batch(s, num_ranks, found);
  add_if(s.deterministic && !std::has_single_bit(static_cast<unsigned>(num_ranks)), found,
         {"deterministic", "ranks"},
         fmt::format("deterministic works on 1, 2, 4, 8, ... ranks, there are {}",
                     num_ranks));
}

void check_schedule(const Settings& s, Conflicts& found) {
  const bool is_wsd = s.schedule == "wsd";
  add_if(s.min_lr > s.lr, found, {"lr", "min_lr"},
         fmt::format("min_lr {} is above lr {}; allowed: 0 to lr", s.min_lr, s.lr));
  add_if(s.schedule != "constant" && s.warmup_steps > s.steps, found,
         {"warmup_steps", "steps", "schedule"},
         fmt::format("warmup_steps {} is above steps {}; allowed: 0 to steps",
                     s.warmup_steps, s.steps));
  add_if(s.decay_steps > 0 && !is_wsd, found, {"decay_steps", "schedule"},
         "decay_steps belongs to schedule wsd, not to " + s.schedule);
  add_if(is_wsd && s.warmup_steps <= s.steps && s.decay_steps > s.steps - s.warmup_steps,
         found, {"decay_steps", "warmup_steps", "steps", "schedule"},
         fmt::format("decay_steps {} is above steps - warmup_steps = {}", s.decay_steps,
                     s.steps - s.warmup_steps));
}

// What was set for an optimizer that does not read it.
void check_optimizer(const Settings& s, Conflicts& found) {
  const Settings defaults;
  const auto belongs = [&](bool is_set, const std::string& key,
                           const std::vector<std::string>& readers) {
    add_if(is_set && std::ranges::count(readers, s.optimizer) == 0, found,
           {key, "optimizer"},
           fmt::format("{} belongs to optimizer {}, not to {}", key,
                       alternatives(readers), s.optimizer));
  };
  belongs(s.betas != defaults.betas, "betas", {"adamw", "lion"});
  belongs(s.eps != defaults.eps, "eps", {"adamw", "adagrad"});
  belongs(s.momentum != defaults.momentum, "momentum", {"sgd"});
  belongs(s.nesterov != defaults.nesterov, "nesterov", {"sgd"});
}

void check_device(const Settings& s, Conflicts& found) {
  add_if(s.tf32 && s.device == "cpu", found, {"tf32", "device"},
         "tf32 is for a GPU, and device is cpu: leave it out");
  add_if(s.tf32 && s.dtype != "fp32", found, {"tf32", "dtype"},
         "tf32 belongs to dtype fp32, not to " + s.dtype);
  add_if(s.device_memory > 0 && s.device == "cpu", found, {"device_memory", "device"},
         "device_memory is a GPU's, device is cpu: host_memory limits what ranks take "
         "there");
}

void check_offload(const Settings& s, Conflicts& found) {
  const bool names_a_place = s.offload == "none" || s.offload == "optimizer";
  const bool has_fraction = parse_fraction(s.device_state_fraction) != 0.0;
  add_if(names_a_place && s.device == "cpu", found, {"offload", "device"},
         "offload " + s.offload +
             " is for a GPU, device is cpu: all is in the host's memory there");
  add_if(has_fraction && s.device == "cpu", found, {"device_state_fraction", "device"},
         "device_state_fraction is for a GPU, device is cpu");
  add_if(has_fraction && s.offload == "none", found, {"device_state_fraction", "offload"},
         "device_state_fraction belongs to offload optimizer, all or auto: with none the "
         "GPU has all states");
  add_if(
      has_fraction && s.optimizer != "adamw", found,
      {"device_state_fraction", "optimizer"},
      "device_state_fraction belongs to adamw: GPUs update with that alone, not with " +
          s.optimizer);
  add_if(s.offload == "none" && s.optimizer != "adamw", found, {"offload", "optimizer"},
         "offload none belongs to adamw: GPUs update with that alone; optimizer keeps "
         "the state of " +
             s.optimizer + " in the host's memory");
}

void check_pinning(const Settings& s, Conflicts& found) {
  add_if(s.pin == "transfers" && s.device == "cpu", found, {"pin", "device"},
         "pin transfers is for a GPU, device is cpu: nothing is pinned there");
}

void check_activations(const Settings& s, Conflicts& found) {
  add_if(s.offload_activations && s.device == "cpu", found,
         {"offload_activations", "device"},
         "offload_activations is for a GPU, device is cpu: inputs of units are in the "
         "host's memory already");
  add_if(s.offload_activations && s.recompute == "none", found,
         {"offload_activations", "recompute"},
         "offload_activations belongs to recompute unit or every:K, not to none: inputs "
         "are kept for recomputation alone");
}

void check_loss_scale(const Settings& s, Conflicts& found) {
  const Settings defaults;
  const auto check = [&](int64_t Settings::*member, const std::string& key,
                         bool is_scale) {
    add_if(s.dtype != "fp16" && s.*member != defaults.*member, found, {key, "dtype"},
           fmt::format("{} belongs to dtype fp16, not to {}", key, s.dtype));
    add_if(is_scale && !is_loss_scale(s.*member), found, {key},
           fmt::format("{} is {}; allowed: powers of two, as others would round "
                       "gradients; nearest: {}",
                       key, s.*member, std::bit_floor(static_cast<uint64_t>(s.*member))));
  };
  check(&Settings::loss_scale_init, "loss_scale_init", true);
  check(&Settings::loss_scale_window, "loss_scale_window", false);
  check(&Settings::loss_scale_min, "loss_scale_min", true);
  add_if(s.loss_scale_min > s.loss_scale_init, found,
         {"loss_scale_min", "loss_scale_init"},
         fmt::format("loss_scale_min {} is above loss_scale_init {}", s.loss_scale_min,
                     s.loss_scale_init));
  add_if(s.dtype == "fp16" && s.master == "split", found, {"master", "dtype"},
         "master split belongs to dtype bf16, which is its high half, not to fp16");
}

void check_delays(const Settings& s, Conflicts& found) {
  static const std::vector<std::string> points = {
      "forward",         "backward",
      "update",          "adam",
      "comm.all_gather", "comm.reduce_scatter",
      "comm.all_reduce", "comm.broadcast",
      "comm.barrier",    "comm.split",
      "comm.duplicate"};
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
  if (shape.vocab() == 0) with_vocab.config["vocab_size"] = 1;  // the data's
  family.check(with_vocab);
}

// A model that comes with settings, not from a folder.
void check_new_model(const ModelFamily& family, const Settings& s, Conflicts& found) {
  Conflicts of_shape;
  try {
    check_shape(family, new_shape(family, s), of_shape);
  } catch (const Error& error) {
    found.push_back({{"model", "preset", "layers", "dim", "heads", "kv_heads", "ffn_dim",
                      "vocab", "model_config", "seq_len"},
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
    const auto other = std::ranges::find_if(
        models, [&](const ModelFamily& each) { return each.presets.contains(s.preset); });
    if (other != models.end()) {
      found.push_back({{"preset", "model"},
                       fmt::format("preset {} is a shape of model {}, and model is {}; "
                                   "allowed: with --model {}",
                                   s.preset, other->name, s.model, other->name)});
      return;
    }
    for (const auto& [name, config] : family->presets) known.push_back(name);
    std::string others;
    for (const ModelFamily& each : models) {
      if (&each != family && !each.presets.empty())
        others += fmt::format("; {}, ... with --model {}", each.presets.begin()->first,
                              each.name);
    }
    found.push_back(
        {{"preset", "model"},
         fmt::format("preset is \"{}\"{}{}", s.preset, offer(s.preset, known), others)});
    return;
  }
  check_new_model(*family, s, found);
}

}  // namespace

std::vector<Conflict> find_rank_conflicts(const Settings& s, int num_ranks) {
  Conflicts found;
  check_ranks(s, num_ranks, found);
  return found;
}

std::vector<Conflict> find_conflicts(const Settings& s, const ConfigContext& context) {
  Conflicts found;
  const bool trains = context.verb == "train" || context.verb == "plan";
  const bool starts = trains && context.is_complete;
  const bool evaluates_nothing = context.verb == "eval" && s.eval_data.empty();
  add_if((starts || evaluates_nothing) && s.data.empty(), found, {"data"},
         "data is missing; allowed: files or folders (--data PATH...)");
  add_if(starts && s.out.empty(), found, {"out"},
         "out is missing; allowed: a folder for this run (--out DIR)");
  const bool seeds = context.verb == "seed";
  add_if(seeds && s.out.empty(), found, {"out"},
         "out is missing; allowed: a folder without checkpoints (--out DIR)");
  add_if(seeds && !s.init_from.empty(), found, {"init_from"},
         "seed makes new weights; those of init_from are there");
  add_if(context.verb == "generate" && s.sample.empty(), found, {"sample"},
         "sample is missing; allowed: a text to be continued (--sample PROMPT)");
  if (context.models) check_model(s, *context.models, found);
  check_hang(s, found);
  check_delays(s, found);
  if (!trains) return found;
  add_if(!s.hosts.empty() && s.ranks == 0, found, {"hosts", "ranks"},
         "hosts says where ranks start, and not how many; allowed: with --ranks N");
  check_schedule(s, found);
  check_optimizer(s, found);
  check_device(s, found);
  check_offload(s, found);
  check_pinning(s, found);
  check_activations(s, found);
  check_loss_scale(s, found);
  const Settings defaults;
  const auto needs_eval_data = [&](bool is_set, const std::string& key) {
    add_if(is_set && s.eval_data.empty(), found, {key, "eval_data"},
           key + " needs data to evaluate on (--eval-data PATH...)");
  };
  needs_eval_data(s.eval_every > 0, "eval_every");
  needs_eval_data(s.eval_samples != defaults.eval_samples, "eval_samples");
  const auto needs_sample = [&](bool is_set, const std::string& key) {
    add_if(is_set && s.sample.empty(), found, {key, "sample"},
           key + " needs a text to be continued (--sample PROMPT)");
  };
  needs_sample(s.sample_every > 0, "sample_every");
  needs_sample(s.sample_tokens != defaults.sample_tokens, "sample_tokens");
  needs_sample(s.sample_temperature != defaults.sample_temperature, "sample_temperature");
  add_if(s.share_gpu && s.device == "cpu", found, {"share_gpu", "device"},
         "share_gpu is for a GPU, device is cpu");
  check_overrides(s, found);
  if (context.num_ranks > 0) check_ranks(s, context.num_ranks, found);
  return found;
}

}  // namespace zero::launcher
