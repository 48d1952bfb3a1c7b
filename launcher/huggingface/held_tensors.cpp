#include "launcher/huggingface/held_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "launcher/run/resume.h"
#include "launcher/run/runner.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

Error no_parts(const std::string& problem, const std::vector<std::string>& folders) {
  return {ExitCode::kUsage, problem, fmt::format("{}", fmt::join(folders, " and ")),
          "checkpoints that have each part of one model once"};
}

}  // namespace

HeldTensors::HeldTensors(const std::vector<std::string>& folders) : folders_(folders) {
  std::map<std::pair<checkpoint::Kind, std::string>, std::string> holders;
  for (const std::string& folder : folders) {
    readers_.push_back(std::make_unique<checkpoint::Reader>(folder));
    for (const auto& tensor : readers_.back()->manifest().tensors) {
      const auto [holder, is_new] =
          holders.try_emplace({tensor.kind, tensor.fqn}, folder);
      if (!is_new && tensor.kind != checkpoint::Kind::kUser)
        throw no_parts(tensor.fqn + " is in both", {holder->second, folder});
    }
  }
}

std::vector<HeldTensor> HeldTensors::of_kind(checkpoint::Kind kind) const {
  std::vector<HeldTensor> held;
  for (const auto& reader : readers_) {
    for (const auto& tensor : reader->manifest().tensors)
      if (tensor.kind == kind) held.push_back({reader.get(), &tensor});
  }
  std::ranges::sort(held, {}, [](const HeldTensor& each) { return each.tensor->fqn; });
  return held;
}

void HeldTensors::require_all(const ModelFamily& family,
                              const nlohmann::json& config) const {
  std::set<std::string> missing =
      names_in(*make_deferred(family, {.config = config, .keys = family.keys}));
  for (const auto& reader : readers_) {
    for (const auto& tensor : reader->manifest().tensors) missing.erase(tensor.fqn);
    for (const auto& [alias, fqn] : reader->manifest().aliases) missing.erase(alias);
  }
  if (missing.empty()) return;
  throw no_parts(
      fmt::format("{} tensor(s) of the whole model are in none: {}", missing.size(),
                  fmt::join(first_few({missing.begin(), missing.end()}), ", ")),
      folders_);
}

}  // namespace zero::launcher
