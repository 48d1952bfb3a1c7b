#include "launcher/settings/config_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "launcher/settings/model_shape.h"
#include "launcher/settings/names.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Conflicts = std::vector<Conflict>;

void append(Conflicts& all, Conflicts more) {
  all.insert(all.end(), more.begin(), more.end());
}

Conflicts missing_settings(const Settings& s) {
  Conflicts found;
  if (s.data.empty())
    found.push_back(
        {{"data"}, "data is missing; allowed: files or folders (--data PATH...)"});
  if (s.out.empty())
    found.push_back(
        {{"out"}, "out is missing; allowed: a folder for this run (--out DIR)"});
  return found;
}

Conflicts host_conflicts(const Settings& s) {
  if (s.hosts.empty() || s.ranks > 0) return {};
  return {{{"hosts", "ranks"},
           "hosts says where ranks start, and not how many; allowed: with --ranks N"}};
}

Conflicts hang_conflicts(const Settings& s) {
  constexpr int64_t kShortest = 5;
  if (s.hang_timeout == 0 || s.hang_timeout >= kShortest) return {};
  return {{{"hang_timeout"},
           fmt::format("hang_timeout is {}s; allowed: 0 (never), or {}s and more, as "
                       "answers take a second or two",
                       s.hang_timeout, kShortest)}};
}

Conflicts prompt_conflicts(const Settings& s) {
  if (!s.sample.empty()) return {};
  return {{{"sample"},
           "sample is missing; allowed: a text to be continued (--sample PROMPT)"}};
}

// The nearest numbers of samples that `step` divides: "24 or 36".
std::string neighbours(int64_t batch, int64_t step) {
  const int64_t below = batch / step * step;
  return below == 0 ? fmt::format("{}", step)
                    : fmt::format("{} or {}", below, below + step);
}

Conflicts batch_conflicts(const Settings& s, int num_ranks) {
  const std::vector<std::string> keys = {"global_batch", "micro_batch"};
  const int64_t pass = s.micro_batch * num_ranks;
  if (s.global_batch % pass == 0) return {};
  if (s.global_batch < pass) {
    return {{keys, fmt::format("global_batch {} gives {} rank(s) less than one "
                               "micro_batch of {} each; allowed: "
                               "global_batch {} or more, or fewer ranks",
                               s.global_batch, num_ranks, s.micro_batch, pass)}};
  }
  return {{keys, fmt::format("global_batch {} does not divide by micro_batch {} x {} "
                             "rank(s) = {}; nearest: {}",
                             s.global_batch, s.micro_batch, num_ranks, pass,
                             neighbours(s.global_batch, pass))}};
}

Conflicts schedule_conflicts(const Settings& s) {
  Conflicts found;
  const bool decays = s.schedule != "constant";
  if (s.min_lr > s.lr) {
    found.push_back(
        {{"lr", "min_lr"},
         fmt::format("min_lr {} is above lr {}; allowed: 0 to lr", s.min_lr, s.lr)});
  }
  if (decays && s.warmup_steps > s.steps) {
    found.push_back(
        {{"warmup_steps", "steps", "schedule"},
         fmt::format("warmup_steps {} is above steps {}", s.warmup_steps, s.steps)});
  }
  if (s.decay_steps > 0 && s.schedule != "wsd") {
    found.push_back({{"decay_steps", "schedule"},
                     "decay_steps belongs to schedule wsd, not to " + s.schedule});
  }
  if (s.schedule == "wsd" && s.decay_steps > s.steps - s.warmup_steps &&
      s.warmup_steps <= s.steps) {
    found.push_back({{"decay_steps", "warmup_steps", "steps", "schedule"},
                     fmt::format("decay_steps {} is above steps - warmup_steps = {}",
                                 s.decay_steps, s.steps - s.warmup_steps)});
  }
  return found;
}

// What was set for an optimizer that does not read it.
Conflicts optimizer_conflicts(const Settings& s) {
  const Settings defaults;
  Conflicts found;
  const auto belongs = [&](bool is_set, const std::string& key,
                           const std::vector<std::string>& readers) {
    if (!is_set || std::ranges::count(readers, s.optimizer) > 0) return;
    found.push_back({{key, "optimizer"},
                     fmt::format("{} belongs to optimizer {}, not to {}", key,
                                 alternatives(readers), s.optimizer)});
  };
  belongs(s.betas != defaults.betas, "betas", {"adamw", "lion"});
  belongs(s.eps != defaults.eps, "eps", {"adamw", "adagrad"});
  belongs(s.momentum != defaults.momentum, "momentum", {"sgd"});
  belongs(s.nesterov != defaults.nesterov, "nesterov", {"sgd"});
  return found;
}

Conflicts evaluation_conflicts(const Settings& s) {
  if (s.eval_every == 0 || !s.eval_data.empty()) return {};
  return {{{"eval_every", "eval_data"},
           "eval_every needs data to evaluate on (--eval-data PATH...)"}};
}

Conflicts delay_conflicts(const Settings& s) {
  Conflicts found;
  for (const std::string& delay : s.delay) {
    const size_t equals = delay.find('=');
    const auto milliseconds =
        equals == delay.npos ? std::nullopt : parse_integer(delay.substr(equals + 1));
    if (!milliseconds || *milliseconds < 0 || *milliseconds > 3'600'000 || equals == 0) {
      found.push_back(
          {{"delay"},
           fmt::format("delay is \"{}\"; allowed: POINT=MILLISECONDS", delay)});
    }
  }
  return found;
}

Conflicts override_conflicts(const Settings& s) {
  Conflicts found;
  for (const std::string& key : s.overrides) {
    if (!find_setting(key)) {
      found.push_back({{"override"},
                       fmt::format("override names \"{}\", which is no setting{}", key,
                                   advice_for(key, key_of))});
    }
  }
  return found;
}

Conflicts shape_conflicts(const ModelShape& shape) {
  Conflicts found;
  if (shape.heads > 0 && shape.dim % shape.heads != 0) {
    found.push_back(
        {{"dim", "heads"},
         fmt::format("dim {} does not divide by heads {}; nearest: dim {}", shape.dim,
                     shape.heads, neighbours(shape.dim, shape.heads))});
  }
  if (shape.kv_heads > 0 && shape.heads % shape.kv_heads != 0) {
    found.push_back({{"heads", "kv_heads"},
                     fmt::format("heads {} does not divide by kv_heads {}", shape.heads,
                                 shape.kv_heads)});
  }
  return found;
}

template <class Names>
std::string offer(const std::string& name, const Names& names) {
  const std::vector<std::string> known(names.begin(), names.end());
  const std::string near = nearest(name, known);
  return (near.empty() ? "" : "; nearest: " + near) + "; allowed: " + alternatives(known);
}

Conflicts model_conflicts(const Settings& s, const ModelFamilies& models) {
  std::vector<std::string> names;
  const ModelFamily* family = find_family(models, s.model);
  if (!family) {
    for (const ModelFamily& each : models) names.push_back(each.name);
    return {
        {{"model"}, fmt::format("model is \"{}\"{}", s.model, offer(s.model, names))}};
  }
  const ModelShape* preset = find_preset(*family, s.preset);
  if (!preset) {
    for (const auto& [name, shape] : family->presets) names.push_back(name);
    return {{{"preset", "model"},
             fmt::format("preset is \"{}\"{}", s.preset, offer(s.preset, names))}};
  }
  return shape_conflicts(chosen_shape(*preset, s));
}

}  // namespace

std::vector<Conflict> find_rank_conflicts(const Settings& s, int num_ranks) {
  Conflicts found = batch_conflicts(s, num_ranks);
  if (s.deterministic && !std::has_single_bit(static_cast<unsigned>(num_ranks))) {
    found.push_back(
        {{"deterministic"},
         fmt::format("deterministic works on 1, 2, 4, 8, ... ranks, there are {}",
                     num_ranks)});
  }
  return found;
}

std::vector<Conflict> find_conflicts(const Settings& settings,
                                     const ConfigContext& context) {
  Conflicts found;
  if (context.verb != "train" && context.verb != "plan") {
    if (context.verb == "generate") append(found, prompt_conflicts(settings));
    if (context.models) append(found, model_conflicts(settings, *context.models));
    append(found, delay_conflicts(settings));
    append(found, hang_conflicts(settings));
    return found;
  }
  if (context.is_complete) append(found, missing_settings(settings));
  if (context.models) append(found, model_conflicts(settings, *context.models));
  append(found, host_conflicts(settings));
  append(found, hang_conflicts(settings));
  append(found, schedule_conflicts(settings));
  append(found, optimizer_conflicts(settings));
  append(found, evaluation_conflicts(settings));
  append(found, delay_conflicts(settings));
  append(found, override_conflicts(settings));
  if (context.num_ranks > 0)
    append(found, find_rank_conflicts(settings, context.num_ranks));
  return found;
}

}  // namespace zero::launcher
