#include "launcher/inference/target_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

namespace zero::launcher {
namespace {

constexpr char kNull[] = "null";

std::string to_record(int64_t sample, std::span<const int64_t> tokens,
                      std::span<const int64_t> targets, std::span<const float> losses) {
  size_t end = targets.size();
  while (end > 0 && targets[end - 1] < 0) --end;
  std::vector<std::string> told, log_probs;
  for (size_t i = 0; i < end; ++i) {
    const bool counts = targets[i] >= 0;
    told.push_back(counts ? std::to_string(targets[i]) : kNull);
    log_probs.push_back(counts && std::isfinite(losses[i])
                            ? fmt::format("{}", 0 - losses[i])  // of 0 no -0
                            : kNull);
  }
  return fmt::format(
      "{{\"sample\": {}, \"tokens\": [{}], \"targets\": [{}], \"log_probs\": [{}]}}\n",
      sample, fmt::join(tokens.first(end), ", "), fmt::join(told, ", "),
      fmt::join(log_probs, ", "));
}

}  // namespace

std::string target_records(const data::Batch& batch, std::span<const float> losses,
                           int64_t first, int64_t count) {
  const auto length = static_cast<size_t>(batch.seq_len);
  std::string records;
  for (int64_t row = 0; row < count; ++row) {
    const size_t begin = static_cast<size_t>(row) * length;
    records += to_record(first + row, std::span(batch.inputs).subspan(begin, length),
                         std::span(batch.targets).subspan(begin, length),
                         losses.subspan(begin, length));
  }
  return records;
}

}  // namespace zero::launcher
