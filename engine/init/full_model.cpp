#include "engine/init/full_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <span>
#include <string>

#include "base/hash.h"
#include "engine/comm/agreement.h"
#include "engine/watch/activity.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements that are handled at once

void require_memory(const ScannedModel& model, int rank, const std::string& source) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (!is_deferred(model.tensors[i])) continue;
    reject("a deferred parameter on rank " + std::to_string(rank) + ", where " + source +
               " wants the whole model",
           model.params[i].fqn,
           "make this rank's model outside zero::DeferredInit; or Source::kInit "
           "(Options::source), which fills deferred ones");
  }
}

// Let `get(param, begin, values)` set one piece of the model's parameters after the
// other, of which `use(param, begin, values)` makes something.
template <class Get, class Use>
void for_each_piece(const ScannedModel& model, Get get, const Use& use) {
  std::vector<float> memory(kPiece);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const int64_t numel = model.tensors[i].numel();
    for (int64_t begin = 0; begin < numel; begin += kPiece) {
      Activity::here().sign();
      const auto values = std::span(memory).first(std::min(kPiece, numel - begin));
      get(i, begin, values);
      use(i, begin, values);
    }
  }
}

// What get() above is on a rank that has memory for all: elements as fp32 of the host.
auto own_values(const ScannedModel& model) {
  return [&model, flat = at::Tensor()](size_t param, int64_t begin,
                                       std::span<float> to) mutable {
    if (begin == 0) flat = model.tensors[param].detach().reshape({-1});
    const int64_t numel = std::ssize(to);
    at::from_blob(to.data(), {numel}, at::kFloat).copy_(flat.narrow(0, begin, numel));
  };
}

// Keep this rank's slices of what get() above sets; `who` holds the model.
template <class Get>
std::vector<InitEntry> keep_all(const ScannedModel& model, const Get& get,
                                const std::string& who, ShardWriter& writer,
                                Ranks& ranks) {
  Activity::Stretch stretch("first values");
  stretch.expect(writer.bytes_of({}));
  for_each_piece(model, get,
                 [&](size_t param, int64_t begin, std::span<const float> values) {
                   writer.keep(param, begin, values);
                 });
  std::vector<InitEntry> entries;
  for (const ParamDescription& param : model.params)
    entries.push_back({.fqn = param.fqn, .who = who});
  writer.finish({}, entries, ranks);
  return entries;
}

}  // namespace

std::vector<InitEntry> take_from_rank_0(const ScannedModel& model, ShardWriter& writer,
                                        Ranks& ranks) {
  Agreement(ranks, "send the model of rank 0").run([&] {
    if (ranks.rank() == 0) require_memory(model, 0, "Source::kRank0");
  });
  const auto get = [&, own = own_values(model)](size_t param, int64_t begin,
                                                std::span<float> values) mutable {
    if (ranks.rank() == 0) own(param, begin, values);
    ranks.broadcast(values.data(), static_cast<int64_t>(values.size_bytes()), 0,
                    model.params[param].fqn);
  };
  return keep_all(model, get, "rank 0", writer, ranks);
}

std::vector<InitEntry> take_own(const ScannedModel& model, ShardWriter& writer,
                                Ranks& ranks) {
  return keep_all(model, own_values(model), "every rank", writer, ranks);
}

void require_same_values(const ScannedModel& model, Ranks& ranks) {
  Agreement(ranks, "compare the models of all ranks").run([&] {
    require_memory(model, ranks.rank(), "Source::kEveryRank");
  });
  if (ranks.size() == 1) return;
  const Activity::Stretch stretch("comparing first values");
  std::vector<Hasher> hashers(model.params.size());
  for_each_piece(model, own_values(model),
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
