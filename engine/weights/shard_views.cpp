#include "engine/weights/shard_views.h"

#include "engine/plan/unit_plan.h"

namespace zero {
namespace {

// Without its values.
ShardView view_of(const ParamDescription& param, bool is_frozen, const Options& options) {
  ShardView view;
  view.fqn = param.fqn;
  view.shape = param.shape;
  view.aliases.assign(param.names.begin() + 1, param.names.end());
  view.frozen = is_frozen;
  if (is_frozen || options.inference) return view;
  for (const std::string_view name : states_of(options.optimizer.kind))
    view.state.push_back({std::string(name), {}});
  return view;
}

}  // namespace

std::vector<ShardView> shard_views(const std::vector<ParamDescription>& params,
                                   const UnitPlan& plan, ShardStore& shards,
                                   const Options& options, int rank, FarMemory* memory) {
  std::vector<ShardView> views;
  for (size_t i = 0; i < params.size(); ++i)
    views.push_back(view_of(params[i], plan.rules[i].frozen, options));
  const auto through = [&](const StoredValues& values) {
    return memory ? values.through(*memory) : values;
  };
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const PlannedPart& part = plan.parts[p];
    for (const ParamPiece& piece : pieces_of(part.layout, rank)) {
      ShardView& view = views[part.params[piece.param]];
      view.begin = piece.param_begin;
      view.master = through(shards[p].masters(piece.shard_begin, piece.numel));
      for (size_t s = 0; s < view.state.size(); ++s) {
        view.state[s].values = through(
            shards[p].states(static_cast<int>(s), piece.shard_begin, piece.numel));
      }
    }
  }
  return views;
}

}  // namespace zero
