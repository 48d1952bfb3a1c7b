#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/plan/flat_layout.h"
#include "engine/unit/model_scan.h"
#include "engine/weights/shard_store.h"
#include "offload/exact_sum.h"
#include "offload/thread_pool.h"
#include "zero/ranks.h"
#include "zero/reports.h"

namespace zero {

// Sets elements [begin, begin + values.size()) of one parameter, from any thread.
using SetValues = std::function<void(int64_t begin, std::span<float> values)>;

// Sums over elements that come in any order and parts.
class ValueSums {
 public:
  // `begin`: where these elements stand among all.
  void add(int64_t begin, std::span<const float> values);
  void merge(const ValueSums& other);
  static constexpr size_t kNumWords = 3 * ExactSum::kNumLimbs + 3;
  void store(std::span<int64_t> words);  // to be summed over ranks
  static void read(std::span<const int64_t> words, InitEntry& entry);
  void tell(InitEntry& entry);  // without other ranks

 private:
  ExactSum positive_, negative_, squares_;
  uint64_t checksum_ = 0;
  int64_t count_ = 0;
};

// As of an InitEntry; `begin`: where these elements stand. Sums of parts make the whole.
uint64_t checksum_of(int64_t begin, std::span<const float> values);

// Stores first values in this rank's slices, and counts. `which`, of the model's
// parameters: empty for all.
class ShardWriter {
 public:
  // `measures`: with statistics.
  ShardWriter(const ScannedModel& model, const UnitPlan& plan, ShardStore& shards,
              int rank, ThreadPool& threads, bool measures);

  // Bytes of this rank's slices of these parameters, all of which will be signed.
  int64_t bytes_of(const std::vector<bool>& which) const;

  // Let `set` make this rank's slice of a parameter, if it has one, on all threads.
  void write(size_t param, const SetValues& set);
  // Keep what this rank owns of a parameter's elements from `begin` on.
  void keep(size_t param, int64_t begin, std::span<const float> values);

  // Throws Error(kUsage) with the names of parameters whose values on some rank are not
  // finite, or were not set; std::logic_error unless all ranks together stored each
  // element of these parameters once. Then measures `entries`, if it measures.
  // Collective.
  void finish(const std::vector<bool>& which, std::vector<InitEntry>& entries,
              Ranks& ranks);

 private:
  std::optional<ParamPiece> own_piece(size_t param) const;
  void count(size_t param, int64_t begin, std::span<const float> values);
  void require_finite() const;
  void require_whole(const std::vector<bool>& which, Ranks& ranks) const;
  void measure(std::vector<InitEntry>& entries, Ranks& ranks);

  const ScannedModel& model_;
  const UnitPlan& plan_;
  ShardStore& shards_;
  const int rank_;
  ThreadPool& threads_;
  std::vector<std::atomic<int64_t>> num_stored_, num_wrong_;  // of each parameter
  std::vector<ValueSums> sums_;                               // empty: not measured
  std::mutex sums_mutex_;
};

}  // namespace zero
