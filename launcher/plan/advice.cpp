#include "launcher/plan/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/settings/config.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"
#include "zero/options.h"

namespace zero::launcher {
namespace {

constexpr int kNodes[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024};

// Something that saves memory and changes no number that matters: false where it is done
// already. A micro-batch becomes the next smaller one that divides the batch.
using Saver = bool (*)(Wish&);

template <class T>
bool change(T& setting, const T& value) {
  const bool is_new = setting != value;
  setting = value;
  return is_new;
}

// Batch norms see the samples of a pass together, of a rank or of all ranks: with other
// passes or other ranks such a model learns something else. Models of images are taken to
// have some.
bool has_batch_norms(const Wish& wish) { return wish.task == Task::kImages; }

// More of the units.
bool recompute(Wish& wish) {
  const int64_t every = parse_recompute(wish.settings.recompute).value();
  for (const std::string way : {"every:4", "every:2", "unit"}) {
    if (every == 0 || parse_recompute(way).value() < every)
      return change(wish.settings.recompute, way);
  }
  return false;
}
bool reshard(Wish& wish) { return change(wish.settings.reshard_after_forward, true); }
// Over the next more ranks that divide them.
bool shard_wider(Wish& wish) {
  const int told = parse_shard_over(wish.settings.shard_over).value();
  int group = told == kRanksOfHost ? wish.ranks_on_node : told;
  if (group == 0 || group >= wish.num_ranks) return false;
  while (wish.num_ranks % ++group != 0) {
  }
  wish.settings.shard_over = group == wish.num_ranks ? "all" : std::to_string(group);
  return true;
}
bool gather_one(Wish& wish) {
  return wish.settings.prefetch != "auto" &&
         change(wish.settings.prefetch, std::string("0"));
}
bool accumulate_models(Wish& wish) {
  return change(wish.settings.accumulate, std::string("model"));
}
bool split_pass(Wish& wish) {
  if (has_batch_norms(wish)) return false;
  for (int64_t rows = wish.settings.micro_batch - 1; rows > 0; --rows) {
    if (wish.settings.global_batch % (rows * wish.num_ranks) != 0) continue;
    wish.settings.micro_batch = rows;
    return true;
  }
  return false;
}

bool chunk_loss(Wish& wish) {
  return wish.settings.loss_chunk == 0 && change(wish.settings.loss_chunk, kLossChunk);
}
bool offload_inputs(Wish& wish) {
  return wish.gpu_room > 0 && wish.settings.recompute != "none" &&
         change(wish.settings.offload_activations, true);
}
bool draft_nothing(Wish& wish) {
  return wish.settings.speculate != "auto" &&
         change(wish.settings.speculate, std::string("off"));
}
// What a GPU was told to keep.
bool keep_less(Wish& wish) {
  const bool is_told =
      wish.settings.offload == "none" || wish.settings.offload == "optimizer" ||
      wish.settings.grad_sums == "device" ||
      parse_fraction(wish.settings.device_state_fraction).value_or(0) > 0;
  if (!is_told || wish.gpu_room == 0) return false;
  wish.settings.offload = wish.settings.grad_sums = "auto";
  wish.settings.device_state_fraction = "0";
  return true;
}
bool split_master(Wish& wish) {
  return wish.settings.dtype == "bf16" &&
         change(wish.settings.master, std::string("split"));
}

bool round_frozen(Wish& wish) {
  const Settings& s = wish.settings;
  const bool has_frozen = !s.freeze.empty() || wish.shape.lora();
  const bool may_round = s.save_frozen && s.unfreeze_at.empty();
  if (!has_frozen || !may_round || s.frozen_dtype == "int8") return false;
  const bool is_narrow = s.frozen_dtype == "bf16" || s.frozen_dtype == "fp16";
  wish.settings.frozen_dtype = is_narrow ? "int8" : s.dtype == "fp16" ? "fp16" : "bf16";
  return true;
}

constexpr Saver kSavers[] = {draft_nothing,  shard_wider,  keep_less,
                             recompute,      split_pass,   accumulate_models,
                             gather_one,     reshard,      chunk_loss,
                             offload_inputs, split_master, round_frozen};

Fit make_fit(const Wish& before, const Wish& after, RunPlan plan, int num_nodes = 1) {
  Fit fit{after, std::move(plan), {}, num_nodes};
  for (const Setting& setting : setting_table()) {
    const auto was = setting.value(before.settings), is = setting.value(after.settings);
    if (was != is) fit.changes.push_back({setting.key, word_of(was), word_of(is)});
  }
  return fit;
}

// `saver` as often as it takes.
std::optional<Wish> with_saver(Wish wish, Saver saver, const Planner& plan) {
  while (saver(wish)) {
    if (fits(plan(wish), wish)) return wish;
  }
  return std::nullopt;
}

// All that saves memory, but for what is not needed.
std::optional<Wish> with_few_savers(const Wish& wish, const Planner& plan) {
  const auto with_all_but = [&](const std::vector<Saver>& left_out) {
    Wish saving = wish;
    for (const Saver saver : kSavers) {
      if (std::ranges::find(left_out, saver) != left_out.end()) continue;
      while (saver(saving)) {
      }
    }
    return saving;
  };
  std::vector<Saver> unneeded;
  if (!fits(plan(with_all_but({})), wish)) return std::nullopt;
  for (const Saver saver : kSavers) {
    unneeded.push_back(saver);
    if (!fits(plan(with_all_but(unneeded)), wish)) unneeded.pop_back();
  }
  return with_all_but(unneeded);
}

// Each rank has rings of its own; a single one needs none.
std::optional<Wish> on_fewer_ranks(const Wish& asked, const Planner& plan) {
  Wish wish = asked;
  if (wish.num_ranks != wish.ranks_on_node || has_batch_norms(wish)) return std::nullopt;
  while (wish.num_ranks > 1) {
    wish.num_ranks = wish.ranks_on_node = wish.num_ranks / 2;
    wish.settings.ranks = wish.num_ranks;
    if (!find_rank_conflicts(wish.settings, wish.num_ranks).empty()) continue;
    if (fits(plan(wish), wish)) return wish;
    if (const auto saving = with_few_savers(wish, plan)) return saving;
  }
  return std::nullopt;
}

// With so many ranks on each.
std::optional<Fit> on_more_nodes(const Wish& wish, const Planner& plan, int here) {
  if (has_batch_norms(wish)) return std::nullopt;
  for (const int nodes : kNodes) {
    Wish spread = wish;
    spread.ranks_on_node = here;
    spread.num_ranks = here * nodes;
    if (spread.num_ranks <= wish.num_ranks) continue;
    spread.settings.ranks = spread.num_ranks;
    while (!find_rank_conflicts(spread.settings, spread.num_ranks).empty() &&
           split_pass(spread)) {
    }
    if (!find_rank_conflicts(spread.settings, spread.num_ranks).empty()) continue;
    if (const auto saving = with_few_savers(spread, plan))
      return make_fit(wish, *saving, plan(*saving), nodes);
  }
  return std::nullopt;
}

// As many ranks as now, fewer of them on a node: where a batch cannot be cut into more.
std::optional<Fit> on_roomier_nodes(const Wish& wish, const Planner& plan) {
  for (const int nodes : kNodes) {
    Wish spread = wish;
    spread.ranks_on_node = (wish.ranks_on_node + nodes - 1) / nodes;
    if (nodes > wish.ranks_on_node) break;
    const int ranks = spread.ranks_on_node;
    if (const auto saving = with_few_savers(spread, plan))
      return make_fit(wish, *saving, plan(*saving), (wish.num_ranks + ranks - 1) / ranks);
  }
  return std::nullopt;
}

// What a config has of each of so many layers, for so many others.
void stretch_lists(nlohmann::json& config, int64_t before, int64_t layers) {
  for (nlohmann::json& value : config) {
    if (!value.is_array() || std::ssize(value) != before) continue;
    const nlohmann::json list = std::exchange(value, nlohmann::json::array());
    for (int64_t i = 0; i < layers; ++i) value.push_back(list[i * before / layers]);
  }
}

// `heads` heads of the same width (or as many times the width, where there are none), and
// as many layers as keep the proportions, and all parts. A few heads less where those of
// keys do not divide so many. Nothing where no setting allows so much.
std::optional<ModelShape> scaled(const ModelShape& shape, int64_t heads) {
  constexpr int64_t kMostLayers = 1 << 14, kWidest = 1 << 24;
  const int64_t before = std::max<int64_t>(1, shape.heads());
  const auto part = [&](int64_t size) {
    return static_cast<int64_t>(
        std::llround(static_cast<double>(size) * static_cast<double>(heads) /
                     static_cast<double>(before)));
  };
  const auto kv_heads = [&] { return std::max<int64_t>(1, part(shape.kv_heads())); };
  while (heads % kv_heads() != 0) --heads;
  ModelShape result = shape;
  result.config.erase(kParts);
  // Nothing takes the place of what is not there, or follows from the others.
  const auto put = [&](const std::string& key, int64_t size) {
    if (shape.integer(key) > 0) result.config[key] = size;
  };
  const ConfigKeys& keys = shape.keys;
  put(keys.heads, heads);
  put(keys.dim, shape.dim() / before * heads);
  put(keys.layers, std::max<int64_t>(1, part(shape.layers())));
  put(keys.ffn_dim, part(shape.ffn_dim()));
  put(keys.kv_heads, kv_heads());
  if (result.layers() > kMostLayers || result.dim() > kWidest) return std::nullopt;
  stretch_lists(result.config, shape.layers(), result.layers());
  return result;
}

// Nothing where its family has no such model.
std::optional<RunPlan> plan_if_possible(const Wish& wish, const Planner& plan) try {
  return plan(wish);
} catch (const Error& error) {
  if (error.code() != ExitCode::kUsage) throw;
  return std::nullopt;
}

bool changes_ranks(const Fit& fit) {
  return std::ranges::count(fit.changes, "ranks", &ChangedSetting::key) > 0;
}

}  // namespace

std::optional<Fit> nearest_fit(const Wish& wish, const Planner& plan) {
  for (const Saver saver : kSavers) {
    if (const auto saving = with_saver(wish, saver, plan))
      return make_fit(wish, *saving, plan(*saving));
  }
  for (const auto attempt : {with_few_savers, on_fewer_ranks}) {
    if (const auto saving = attempt(wish, plan))
      return make_fit(wish, *saving, plan(*saving));
  }
  if (auto fit = on_more_nodes(wish, plan, wish.ranks_on_node)) return fit;
  if (auto fit = on_roomier_nodes(wish, plan)) return fit;
  for (int here = wish.ranks_on_node / 2; here > 0; here /= 2)
    if (auto fit = on_more_nodes(wish, plan, here)) return fit;
  return std::nullopt;
}

std::optional<RunPlan> largest_fit(const Wish& wish, const Planner& plan) {
  const auto attempt = [&](int64_t heads) -> std::optional<RunPlan> {
    Wish larger = wish;
    const std::optional<ModelShape> shape = scaled(wish.shape, heads);
    if (!shape) return std::nullopt;
    larger.shape = *shape;
    std::optional<RunPlan> planned = plan_if_possible(larger, plan);
    return planned && fits(*planned, wish) ? std::move(planned) : std::nullopt;
  };
  std::optional<RunPlan> best;
  int64_t low = 0, high = std::max<int64_t>(1, wish.shape.heads());
  while (auto planned = attempt(high)) {
    best = std::move(planned);
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (auto planned = attempt(middle)) {
      best = std::move(planned);
      low = middle;
    } else {
      high = middle;
    }
  }
  return best;
}

std::string memory_advice(const Wish& wish, const Planner& plan) {
  const std::optional<Fit> nearest = nearest_fit(wish, plan);
  return (nearest ? to_text(*nearest) : "a smaller model, or more nodes") +
         "; zero_launch plan shows what takes it, --ignore-plan starts all the same";
}

std::string to_text(const Fit& fit) {
  std::string text;
  if (fit.num_nodes > 1) {
    text = fmt::format("{} nodes like this one", fit.num_nodes);
    if (!changes_ranks(fit))
      text += fmt::format(", with {} of the ranks each", fit.wish.ranks_on_node);
    if (!fit.changes.empty()) text += ":";
  }
  for (const ChangedSetting& change : fit.changes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " ",
                        flag_of(*find_setting(change.key)), change.after);
  }
  return text;
}

}  // namespace zero::launcher
