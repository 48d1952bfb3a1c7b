#include "engine/init/full_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <span>
#include <string>

#include "checkpoint/hash.h"
#include "engine/activity.h"
#include "engine/comm/agreement.h"
#include "engine/comm/same_lines.h"
#include "engine/errors.h"
#include "engine/init/deferred_init.h"

namespace zero {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements that are handled at once

void require_memory(const ScannedModel& model, int rank, const std::string& source) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (!is_deferred(model.tensors[i])) continue;
    throw Error(ExitCode::kUsage,
                "a deferred parameter on rank " + std::to_string(rank) + ", where " +
                    source + " wants the whole model",
                model.params[i].fqn,
                "make this rank's model outside zero::DeferredInit; or Source::kInit "
                "(Options::source), which fills deferred ones");
  }
}

// Elements of a flat parameter from `begin` on, as fp32 of the host.
void read(const at::Tensor& flat, int64_t begin, std::span<float> to) {
  const int64_t numel = std::ssize(to);
  at::from_blob(to.data(), {numel}, at::kFloat).copy_(flat.narrow(0, begin, numel));
}

// Let `get(param, begin, values)` set one piece of the model's parameters after the
// other, of which `use(param, begin, values)` makes something.
template <class Get, class Use>
void for_each_piece(const ScannedModel& model, Get get, const Use& use) {
  std::vector<float> memory(kPiece);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const int64_t numel = model.tensors[i].numel();
    for (int64_t begin = 0; begin < numel; begin += kPiece) {
      Activity::sign_here();
      const auto values = std::span(memory).first(std::min(kPiece, numel - begin));
      get(i, begin, values);
      use(i, begin, values);
    }
  }
}

// What get() above is on a rank that has memory for all.
class OwnValues {
 public:
  explicit OwnValues(const ScannedModel& model) : model_(model) {}
  void operator()(size_t param, int64_t begin, std::span<float> values) {
    if (begin == 0) flat_ = model_.tensors[param].detach().reshape({-1});
    read(flat_, begin, values);
  }

 private:
  const ScannedModel& model_;
  at::Tensor flat_;  // of the parameter whose turn it is
};

// Keep what this rank owns of a parameter's elements from `begin` on.
void keep(const UnitPlan& plan, ShardStore& shards, int rank, size_t param, int64_t begin,
          std::span<const float> values) {
  const ParamPlace& place = plan.places[param];
  for (const Piece& piece : pieces_of(plan.parts[place.part].layout, rank)) {
    if (piece.param != place.index) continue;
    const int64_t first = std::max(begin, piece.param_begin);
    const int64_t last =
        std::min(begin + std::ssize(values), piece.param_begin + piece.numel);
    if (first >= last) continue;
    shards[place.part]
        .masters(piece.shard_begin + first - piece.param_begin, last - first)
        .write(0, values.subspan(first - begin, last - first));
  }
}

// What use() above is where masters are set.
auto keeper(const UnitPlan& plan, ShardStore& shards, int rank) {
  return [&plan, &shards, rank](size_t param, int64_t begin, std::span<float> values) {
    keep(plan, shards, rank, param, begin, values);
  };
}

}  // namespace

void take_from_rank_0(const ScannedModel& model, const UnitPlan& plan, ShardStore& shards,
                      Ranks& ranks) {
  Agreement(ranks, "send the model of rank 0").run([&] {
    if (ranks.rank() == 0) require_memory(model, 0, "Source::kRank0");
  });
  const Activity::Stretch stretch("first values");
  OwnValues own(model);
  const auto get = [&](size_t param, int64_t begin, std::span<float> values) {
    if (ranks.rank() == 0) own(param, begin, values);
    ranks.broadcast(values.data(), static_cast<int64_t>(values.size_bytes()), 0,
                    model.params[param].fqn);
  };
  for_each_piece(model, get, keeper(plan, shards, ranks.rank()));
}

void take_own(const ScannedModel& model, const UnitPlan& plan, ShardStore& shards,
              int rank) {
  const Activity::Stretch stretch("first values");
  for_each_piece(model, OwnValues(model), keeper(plan, shards, rank));
}

void require_same_values(const ScannedModel& model, Ranks& ranks) {
  Agreement(ranks, "compare the models of all ranks").run([&] {
    require_memory(model, ranks.rank(), "Source::kEveryRank");
  });
  if (ranks.size() == 1) return;
  const Activity::Stretch stretch("comparing first values");
  std::vector<checkpoint::Hasher> hashers(model.params.size());
  for_each_piece(model, OwnValues(model),
                 [&](size_t param, int64_t, std::span<const float> values) {
                   hashers[param].add(values.data(), values.size_bytes());
                 });
  Lines lines;
  for (size_t i = 0; i < hashers.size(); ++i)
    lines.add(model.params[i].fqn, hashers[i].digest());
  require_same_lines(lines, "ranks hold different weights",
                     "the same weights on every rank; or Source::kRank0 "
                     "(Options::source), which sends those of rank 0",
                     ranks);
}

}  // namespace zero
