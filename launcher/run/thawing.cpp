#include "launcher/run/thawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "zero/engine.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

bool names(const Thaw& rule, const ShardView& shard) {
  return glob_match(rule.pattern, shard.fqn) ||
         std::ranges::any_of(shard.aliases, [&](const std::string& alias) {
           return glob_match(rule.pattern, alias);
         });
}

std::vector<std::string> named_by(const Thaw& rule, Engine& engine) {
  std::vector<std::string> fqns;
  for (const ShardView& shard : engine.shards())
    if (names(rule, shard) && engine.is_frozen(shard.fqn)) fqns.push_back(shard.fqn);
  return fqns;
}

void require_trained(Engine& engine, const std::vector<Thaw>& waiting) {
  const auto shards = engine.shards();
  if (!std::ranges::all_of(
          shards, [&](const ShardView& shard) { return engine.is_frozen(shard.fqn); }))
    return;
  throw Error(ExitCode::kUsage,
              fmt::format("every parameter is frozen until {} steps are done",
                          fmt::group_digits(waiting.front().step)),
              "--unfreeze-at",
              "patterns that leave some; names look like " + shards[0].fqn);
}

}  // namespace

Thawing::Thawing(const std::vector<std::string>& rules) {
  for (const std::string& rule : rules)
    if (const auto thaw = parse_thaw(rule)) waiting_.push_back(*thaw);
  std::ranges::stable_sort(waiting_, {}, &Thaw::step);
}

std::vector<std::string> Thawing::thaw(Engine& engine) {
  std::vector<std::string> lines;
  while (!waiting_.empty() && waiting_.front().step <= engine.num_steps()) {
    const Thaw rule = waiting_.front();
    const auto count = std::ssize(named_by(rule, engine));
    engine.set_frozen(rule.pattern, false);
    waiting_.erase(waiting_.begin());
    if (count > 0 && rule.step == engine.num_steps())
      lines.push_back(fmt::format("trained from step {} on: {}, {} parameter{}",
                                  engine.num_steps() + 1, rule.pattern, count,
                                  count == 1 ? "" : "s"));
  }
  // Once: later there are fewer. It waits for a save and for updates.
  if (!std::exchange(is_checked_, true) && !waiting_.empty())
    require_trained(engine, waiting_);
  return lines;
}

std::vector<std::string> Thawing::waiting(Engine& engine) const {
  std::vector<std::string> lines;
  for (const Thaw& rule : waiting_) {
    if (rule.step > engine.num_steps())
      lines.push_back(fmt::format("{} until step {} is done, {} parameter(s)",
                                  rule.pattern, rule.step,
                                  named_by(rule, engine).size()));
  }
  return lines;
}

}  // namespace zero::launcher
