#include "launcher/selftest/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "launcher/look/diff.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::string to_text(const json& number) {
  const std::string norm =
      number.contains("grad_norm") ? ", norm " + number["grad_norm"].dump() : "";
  return fmt::format("{} {}: loss {}{}", number["type"].get<std::string>(),
                     number["step"].dump(), number["loss"].dump(), norm);
}

Comparison compare_tensors(const FolderDiff& diff) {
  const auto other = std::ranges::find_if(diff.tensors, [](const TensorDiff& tensor) {
    return tensor.verdict != Verdict::kEqual;
  });
  if (diff.tensors.empty()) return {false, "checkpoints without a tensor"};
  if (other == diff.tensors.end())
    return {true, fmt::format("{} tensors, bit for bit", diff.tensors.size())};
  return {false, fmt::format("{} of {} tensors are not equal, the first: {} ({})",
                             std::ssize(diff.tensors) - diff.num(Verdict::kEqual),
                             diff.tensors.size(), other->fqn, name_of(other->verdict))};
}

}  // namespace

std::vector<json> numbers_of(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  if (!file) throw Error(ExitCode::kCheckpoint, "a run has left no metrics.jsonl", run);
  std::vector<json> numbers;
  for (std::string line; std::getline(file, line);) {
    const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object())
      throw Error(ExitCode::kCheckpoint, "metrics.jsonl holds a line that is no record",
                  run);
    const json type = record.value("type", json());
    if (type != "step" && type != "eval") continue;
    json number = {{"type", type}};
    for (const char* key : {"step", "loss", "grad_norm"})
      if (record.contains(key)) number[key] = record[key];
    numbers.push_back(std::move(number));
  }
  return numbers;
}

Comparison compare_numbers(const std::vector<json>& a, const std::vector<json>& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  const auto text_of = [](auto at, const auto& all) {
    return at == all.end() ? std::string("the end") : to_text(*at);
  };
  if (in_a != a.end() || in_b != b.end())
    return {false, fmt::format("{}, and {}", text_of(in_a, a), text_of(in_b, b))};
  const int64_t num_steps = std::ranges::count_if(
      a, [](const json& number) { return number["type"] == "step"; });
  if (num_steps == 0) return {false, "no step was done"};
  return {true, fmt::format("{} losses and norms, {} evaluations", num_steps,
                            std::ssize(a) - num_steps)};
}

Comparison compare_runs(const std::string& a, const std::string& b) {
  const Comparison numbers = compare_numbers(numbers_of(a), numbers_of(b));
  const Comparison tensors = compare_tensors(diff_folders(a, b, {.state = true}, {}));
  return {numbers.is_same && tensors.is_same, numbers.is_same == tensors.is_same
                                                  ? numbers.text + "; " + tensors.text
                                              : numbers.is_same ? tensors.text
                                                                : numbers.text};
}

}  // namespace zero::launcher
