#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/inference/text_reader.h"

namespace zero {
class Ranks;
}

// Many texts, made in batches that are dealt to the ranks.
namespace zero::launcher {

// So many at once, by their numbers: those of most tokens first, else in their order.
std::vector<std::vector<size_t>> batches_of(const std::vector<int64_t>& num_tokens,
                                            int64_t rows);

// Ranks that make texts of their own: weights come from all, so that each takes part in
// the passes of the others, with nothing to read, until all are done.
class InStep {
 public:
  // `wants_stop`: of this rank; all stop then.
  InStep(Ranks& ranks, std::function<bool()> wants_stop)
      : ranks_(ranks), wants_stop_(std::move(wants_stop)) {}

  // Before each pass of this rank. Collective, with those of other ranks.
  void begin_pass() { agree(/*has_work=*/true); }
  // Takes part until no rank has work.
  void wait_for_others(TextReader& reader) {
    while (agree(/*has_work=*/false)) reader.read_nothing();
  }
  // Known to all ranks behind each pass.
  bool is_stopped() const { return is_stopped_; }

 private:
  // Has any rank?
  bool agree(bool has_work);

  Ranks& ranks_;
  const std::function<bool()> wants_stop_;
  bool is_stopped_ = false;
};

struct ManyTexts {
  std::vector<std::vector<size_t>> batches;
  // Of so many rows, which calls begin_pass() before each pass.
  std::function<std::unique_ptr<TextReader>(int64_t rows, InStep& in_step)> reader;
  // One record for each text that was made.
  std::function<std::vector<std::string>(const std::vector<size_t>& batch,
                                         TextReader& reader, const InStep& in_step)>
      make;
  // The records of all ranks, behind each round of batches; on the first rank.
  std::function<void(const std::vector<std::string>& records)> keep;
  std::function<bool()> wants_stop;
};

// Collective. Returns whether all were made: else a rank wanted to stop.
bool make_many(const ManyTexts& texts, Ranks& ranks);

}  // namespace zero::launcher
