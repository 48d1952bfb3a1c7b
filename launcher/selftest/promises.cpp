#include "launcher/selftest/promises.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/find.h"
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "launcher/look/diff.h"
#include "launcher/run/lines.h"
#include "launcher/selftest/lab.h"
#include "launcher/settings/shallow_json.h"
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

// One rank's run, with which all others are compared.
constexpr char kOne[] = "one";

Comparison train_one(const Lab& lab) {
  lab.train(kOne, 1);
  const std::vector<json> numbers = numbers_of(lab.path(kOne));
  const Comparison itself = compare_numbers(numbers, numbers);
  constexpr int64_t kNumbers = Trial::kSteps + Trial::kSteps / Trial::kHalf;
  if (!itself.is_same || std::ssize(numbers) < kNumbers)
    return {false, itself.text + " in metrics.jsonl, and more were due"};
  return {true,
          fmt::format("{}; loss {} -> {}", itself.text, numbers.front()["loss"].dump(),
                      numbers.back()["loss"].dump())};
}

Comparison compare_with_one(const Lab& lab, const std::string& run, int num_ranks,
                            const std::vector<std::string>& flags) {
  lab.train(run, num_ranks, flags);
  return compare_runs(lab.path(kOne), lab.path(run));
}

Comparison stop_and_go_on(const Lab& lab) {
  lab.train("resumed", 2, {fmt::format("--steps={}", Trial::kHalf)});
  const auto half = numbers_of(lab.path("resumed"));
  if (half.empty() || half.back()["step"] != Trial::kHalf)
    return {false, "the first half did not end where it should"};
  return compare_with_one(lab, "resumed", 2, {});
}

Comparison compare_bf16(const Lab& lab) {
  const std::vector<std::string> flags = {"--dtype=bf16", "--tf32=false"};
  lab.train("bf16_one", 1, flags);
  lab.train("bf16_two", 2, flags);
  return compare_runs(lab.path("bf16_one"), lab.path("bf16_two"));
}

// Its first parameter, in the second half of a run.
Comparison freeze_one(const Lab& lab) {
  const std::string one = checkpoint::list_steps(lab.path(kOne)).back().path;
  const checkpoint::Reader reader(one);
  std::string fqn;
  for (const checkpoint::StoredTensor& tensor : reader.manifest().tensors)
    if (fqn.empty() && tensor.kind == checkpoint::Kind::kParam) fqn = tensor.fqn;
  const std::string freeze = "--freeze=" + fqn;
  lab.train("frozen", 2, {freeze, fmt::format("--steps={}", Trial::kHalf)});
  lab.train("frozen", 2, {freeze});
  const auto steps = checkpoint::list_steps(lab.path("frozen"));
  if (steps.size() < 2) return {false, "a run and its second half left one checkpoint"};
  return compare_frozen(steps.front().path, steps.back().path, fqn);
}

Comparison verify_all(const Lab& lab) {
  int64_t num_bytes = 0, num_folders = 0;
  for (const char* run : {kOne, "two", "four", "resumed", "frozen"}) {
    for (const checkpoint::StepFolder& step : checkpoint::list_steps(lab.path(run))) {
      const checkpoint::VerifyReport report = checkpoint::verify(step.path);
      if (!report.is_sound()) return {false, report.damages[0].without_cure()};
      num_bytes += report.num_bytes;
      ++num_folders;
    }
  }
  if (num_folders == 0) return {false, "there is no checkpoint"};
  return {true, fmt::format("{} in {} checkpoints", short_bytes(num_bytes), num_folders)};
}

}  // namespace

namespace {

std::vector<json> records_of(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  if (!file) throw Error(ExitCode::kCheckpoint, "a run has left no metrics.jsonl", run);
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) {
    records.push_back(parse_shallow(line));
    if (!records.back().is_object())
      throw Error(ExitCode::kCheckpoint, "metrics.jsonl holds a line that is no record",
                  run);
  }
  return records;
}

}  // namespace

Comparison look_at_movement(const std::string& run) {
  for (const json& record : records_of(run)) {
    if (record.value("type", json()) != "masters") continue;
    const int64_t num_moved = record.value("moved", int64_t{0});
    const bool all = num_moved > 0 && record.value("stuck", json::array()).empty();
    return {all, fmt::format("masters fp32, {} of {} trainable parameters moved",
                             num_moved, record.value("trained", int64_t{0}))};
  }
  return {false, "metrics.jsonl does not tell"};
}

Comparison compare_frozen(const std::string& folder_a, const std::string& folder_b,
                          const std::string& fqn) {
  const FolderDiff diff = diff_folders(folder_a, folder_b, {}, {});
  const auto frozen = std::ranges::find(diff.tensors, fqn, &TensorDiff::fqn);
  if (frozen == diff.tensors.end() || frozen->verdict != Verdict::kEqual)
    return {false, fqn + " is not what it was"};
  const int64_t num_others = std::ssize(diff.tensors) - diff.num(Verdict::kEqual);
  return {num_others > 0, fmt::format("{}, and {} others moved", fqn, num_others)};
}

std::vector<json> numbers_of(const std::string& run) {
  std::vector<json> numbers;
  for (const json& record : records_of(run)) {
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

Comparison compare_evaluation(const std::string& printed,
                              const std::vector<json>& numbers) {
  if (numbers.empty() || numbers.back()["type"] != "eval")
    return {false, "the run has not evaluated at its end"};
  const json& last = numbers.back();
  const std::string expected =
      last["loss"].is_number()
          ? fmt::format("eval step {} | loss {:.6f} |", last["step"].get<int64_t>(),
                        last["loss"].get<double>())
          : "a number";
  if (printed.find(expected) != printed.npos)
    return {true, fmt::format("loss {:.6f}, to the digits that eval prints",
                              last["loss"].get<double>())};
  return {false, fmt::format("{}, and eval prints {}", expected,
                             printed.substr(0, printed.find('\n')))};
}

std::vector<Promise> make_promises(const Settings& settings, const Lab& lab) {
  const std::string recompute = settings.recompute == "none" ? "unit" : "none";
  const std::string overlap = settings.overlap_updates ? "false" : "true";
  const auto same = [&lab](const std::string& run, int num_ranks,
                           const std::vector<std::string>& flags) {
    return [&lab, run, num_ranks, flags] {
      return compare_with_one(lab, run, num_ranks, flags);
    };
  };
  std::vector<Promise> promises = {
      {"one rank trains", [&lab] { return train_one(lab); }},
      {"masters move", [&lab] { return look_at_movement(lab.path(kOne)); }},
      {"2 ranks are as one", same("two", 2, {})},
      {"4 ranks are as one", same("four", 4, {})},
      {"stopped half way, it goes on as if not", [&lab] { return stop_and_go_on(lab); }},
      {"recompute " + recompute + " changes nothing",
       same("recompute", 1, {"--recompute=" + recompute, "--offload-activations=false"})},
      {"late streams (--chaos) change nothing", same("chaos", 2, {"--chaos=7"})},
      {"overlap_updates " + overlap + " changes nothing",
       same("overlap", 2, {"--overlap-updates=" + overlap})}};
  if (settings.dtype == "fp32")
    promises.push_back(
        {"in bf16 2 ranks are as one", [&lab] { return compare_bf16(lab); }});
  promises.push_back(
      {"a frozen parameter stays as it is", [&lab] { return freeze_one(lab); }});
  promises.push_back(
      {"checkpoints have their hashes", [&lab] { return verify_all(lab); }});
  promises.push_back({"eval is as in the run", [&lab] {
                        return compare_evaluation(lab.eval(kOne),
                                                  numbers_of(lab.path(kOne)));
                      }});
  return promises;
}

}  // namespace zero::launcher
