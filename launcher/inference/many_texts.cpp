#include "launcher/inference/many_texts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "zero/ranks.h"

namespace zero::launcher {

std::vector<std::vector<size_t>> batches_of(const std::vector<int64_t>& num_tokens,
                                            int64_t rows) {
  std::vector<size_t> order(num_tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t text) { return num_tokens[text]; });
  std::vector<std::vector<size_t>> batches;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(rows)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(rows));
    batches.emplace_back(order.begin() + static_cast<ptrdiff_t>(begin),
                         order.begin() + static_cast<ptrdiff_t>(end));
  }
  return batches;
}

bool InStep::agree(bool has_work) {
  std::array<int64_t, 2> values = {has_work, wants_stop_()};
  ranks_.all_reduce(values, ReduceOp::kMax, "pass of generation");
  is_stopped_ = is_stopped_ || values[1] > 0;
  return values[0] > 0;
}

bool make_many(const ManyTexts& texts, Ranks& ranks) {
  using nlohmann::json;
  InStep in_step(ranks, texts.wants_stop);
  const auto num_ranks = static_cast<size_t>(ranks.size());
  const auto rank = static_cast<size_t>(ranks.rank());
  for (size_t first = 0; first < texts.batches.size(); first += num_ranks) {
    const size_t own = first + rank;
    const bool has_batch = own < texts.batches.size();
    const auto rows = has_batch ? std::ssize(texts.batches[own]) : 1;
    const auto reader = texts.reader(rows, in_step);
    std::vector<std::string> records;
    if (has_batch) records = texts.make(texts.batches[own], *reader, in_step);
    in_step.wait_for_others(*reader);
    std::vector<std::string> of_all;
    for (const std::string& told : ranks.gather(json(records).dump()))
      for (const json& record : json::parse(told)) of_all.push_back(record);
    if (rank == 0) texts.keep(of_all);
    if (in_step.is_stopped()) return false;
  }
  return true;
}

}  // namespace zero::launcher
