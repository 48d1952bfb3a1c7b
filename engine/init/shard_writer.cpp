#include "engine/init/shard_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/comm/agreement.h"
#include "engine/watch/activity.h"
#include "offload/random.h"
#include "zero/errors.h"

namespace zero {

uint64_t checksum_of(int64_t begin, std::span<const float> values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<uint64_t>(begin) + i;
    sum += hash_key(place, uint64_t{std::bit_cast<uint32_t>(values[i])});
  }
  return sum;
}

void ValueSums::add(int64_t begin, std::span<const float> values) {
  checksum_ += checksum_of(begin, values);
  for (const double value : values) {
    (value < 0 ? negative_ : positive_).add(std::abs(value));
    squares_.add(value * value);
  }
  count_ += std::ssize(values);
}

void ValueSums::merge(const ValueSums& other) {
  positive_.merge(other.positive_);
  negative_.merge(other.negative_);
  squares_.merge(other.squares_);
  checksum_ += other.checksum_;
  count_ += other.count_;
}

// A checksum in two halves, so that no sum of a few ranks overflows.
void ValueSums::store(std::span<int64_t> words) {
  auto next = words.begin();
  for (ExactSum* sum : {&positive_, &negative_, &squares_})
    next = std::ranges::copy(sum->limbs(), next).out;
  *next++ = static_cast<int64_t>(checksum_ & 0xffffffffu);
  *next++ = static_cast<int64_t>(checksum_ >> 32);
  *next++ = count_;
}

void ValueSums::read(std::span<const int64_t> words, InitEntry& entry) {
  const auto value_of = [&](size_t sum) {
    ExactSum total;
    std::ranges::copy(words.subspan(sum * ExactSum::kNumLimbs, ExactSum::kNumLimbs),
                      total.limbs().begin());
    return total.value();
  };
  const std::span<const int64_t> rest = words.subspan(3 * ExactSum::kNumLimbs);
  entry.checksum =
      static_cast<uint64_t>(rest[0]) + (static_cast<uint64_t>(rest[1]) << 32);
  entry.numel = rest[2];
  if (entry.numel == 0) return;
  const auto numel = static_cast<double>(entry.numel);
  entry.mean = (value_of(0) - value_of(1)) / numel;
  entry.std = std::sqrt(std::max(0.0, value_of(2) / numel - entry.mean * entry.mean));
}

void ValueSums::tell(InitEntry& entry) {
  std::array<int64_t, kNumWords> words = {};
  store(words);
  read(words, entry);
}

ShardWriter::ShardWriter(const ScannedModel& model, const UnitPlan& plan,
                         ShardStore& shards, int rank, ThreadPool& threads, bool measures)
    : model_(model),
      plan_(plan),
      shards_(shards),
      rank_(rank),
      threads_(threads),
      num_stored_(model.params.size()),
      num_wrong_(model.params.size()),
      sums_(measures ? model.params.size() : 0) {}

std::optional<ParamPiece> ShardWriter::own_piece(size_t param) const {
  const ParamPlace& place = plan_.places[param];
  return piece_of(plan_.parts[place.part].layout, rank_, place.index);
}

int64_t ShardWriter::bytes_of(const std::vector<bool>& which) const {
  int64_t numel = 0;
  for (size_t i = 0; i < plan_.places.size(); ++i) {
    if (!which.empty() && !which[i]) continue;
    if (const auto piece = own_piece(i)) numel += piece->numel;
  }
  return numel * size_of(DType::kFp32);
}

void ShardWriter::write(size_t param, const SetValues& set) {
  const auto piece = own_piece(param);
  if (!piece) return;
  const StoredValues masters =
      shards_[plan_.places[param].part].masters(piece->shard_begin, piece->numel);
  threads_.parallel_for(piece->numel, 1 << 16, [&](int64_t first, int64_t last) {
    masters.set(first, last - first, [&](std::span<float> values) {
      std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
      set(piece->param_begin + first, values);
      count(param, piece->param_begin + first, values);
    });
  });
}

void ShardWriter::keep(size_t param, int64_t begin, std::span<const float> values) {
  const auto piece = own_piece(param);
  if (!piece) return;
  const int64_t first = std::max(begin, piece->param_begin);
  const int64_t last =
      std::min(begin + std::ssize(values), piece->param_begin + piece->numel);
  if (first >= last) return;
  const std::span<const float> own = values.subspan(first - begin, last - first);
  shards_[plan_.places[param].part]
      .masters(piece->shard_begin + first - piece->param_begin, last - first)
      .write(0, own);
  count(param, first, own);
}

void ShardWriter::count(size_t param, int64_t begin, std::span<const float> values) {
  Activity::sign_here(static_cast<int64_t>(values.size_bytes()));
  num_stored_[param] += std::ssize(values);
  const float largest = max_abs(values.data(), std::ssize(values));
  if (!std::isfinite(largest)) {
    num_wrong_[param] +=
        std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    return;
  }
  if (sums_.empty()) return;
  ValueSums sums;
  sums.add(begin, values);
  const std::scoped_lock lock(sums_mutex_);
  sums_[param].merge(sums);
}

void ShardWriter::finish(const std::vector<bool>& which, std::vector<InitEntry>& entries,
                         Ranks& ranks) {
  Agreement(ranks, "first values").run([&] { require_finite(); });
  require_whole(which, ranks);
  if (!sums_.empty()) measure(entries, ranks);
}

void ShardWriter::require_finite() const {
  std::string wrong;
  for (size_t i = 0; i < num_wrong_.size(); ++i) {
    if (num_wrong_[i] > 0)
      wrong += "\n  - " + model_.params[i].fqn + ": " + std::to_string(num_wrong_[i]);
  }
  if (wrong.empty()) return;
  reject("first values that are not finite:" + wrong, "rank " + std::to_string(rank_),
         "look at what their constructor, function or rule makes");
}

void ShardWriter::require_whole(const std::vector<bool>& which, Ranks& ranks) const {
  std::vector<int64_t> stored(num_stored_.begin(), num_stored_.end());
  ranks.all_reduce(stored, ReduceOp::kSum, "first values");
  for (size_t i = 0; i < stored.size(); ++i) {
    const int64_t numel = model_.tensors[i].numel();
    if ((!which.empty() && !which[i]) || stored[i] == numel) continue;
    throw std::logic_error(model_.params[i].fqn + ": " + std::to_string(stored[i]) +
                           " first values were stored, not " + std::to_string(numel));
  }
}

void ShardWriter::measure(std::vector<InitEntry>& entries, Ranks& ranks) {
  constexpr size_t kWords = ValueSums::kNumWords;
  std::vector<int64_t> words(kWords * sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i)
    sums_[i].store(std::span(words).subspan(i * kWords, kWords));
  ranks.all_reduce(words, ReduceOp::kSum, "statistics of first values");
  for (size_t i = 0; i < sums_.size(); ++i)
    ValueSums::read(std::span(words).subspan(i * kWords, kWords), entries[i]);
}

}  // namespace zero
