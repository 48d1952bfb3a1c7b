#include "launcher/look/frozen.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/manifest.h"
#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::Piece;
using checkpoint::StoredTensor;

bool is_state(Kind kind) { return std::ranges::count(checkpoint::kStateKinds, kind) > 0; }

// Of one checkpoint; nothing where no parameter has a state that would tell.
std::vector<const StoredTensor*> frozen_in(const Manifest& manifest) {
  std::set<std::string> trained;
  for (const StoredTensor& tensor : manifest.tensors)
    if (is_state(tensor.kind)) trained.insert(tensor.fqn);
  std::vector<const StoredTensor*> frozen;
  for (const StoredTensor& tensor : manifest.tensors)
    if (!trained.empty() && tensor.kind == Kind::kParam && !trained.contains(tensor.fqn))
      frozen.push_back(&tensor);
  return frozen;
}

bool are_alike(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::ranges::equal(a.pieces, b.pieces, {}, &Piece::begin, &Piece::begin);
}

bool are_equal(const StoredTensor& a, const StoredTensor& b) {
  return std::ranges::equal(a.pieces, b.pieces, {}, &Piece::hashes, &Piece::hashes);
}

std::optional<Manifest> manifest_of(const std::string& folder) try {
  return checkpoint::load_manifest(checkpoint::Folder(folder));
} catch (const checkpoint::CheckpointError&) {
  return std::nullopt;  // which verify tells
}

std::string name_of(const std::string& folder) {
  return checkpoint::split_path(folder).name;
}

}  // namespace

FrozenTensors compare_frozen_tensors(const std::vector<std::string>& folders) {
  FrozenTensors found;
  std::set<std::string> same;
  std::optional<Manifest> before;
  std::string folder_before;
  for (const std::string& folder : folders) {
    std::optional<Manifest> now = manifest_of(folder);
    if (!now) continue;
    const auto frozen = before ? frozen_in(*before) : std::vector<const StoredTensor*>();
    for (const StoredTensor* tensor : frozen_in(*now)) {
      const auto other = std::ranges::find(frozen, tensor->fqn, &StoredTensor::fqn);
      if (other == frozen.end() || !are_alike(**other, *tensor)) continue;
      if (are_equal(**other, *tensor)) {
        same.insert(tensor->fqn);
        continue;
      }
      found.changed.push_back(fmt::format("{} is another in {} than in {}", tensor->fqn,
                                          name_of(folder), name_of(folder_before)));
    }
    before = std::move(now), folder_before = folder;
  }
  found.num_same = std::ssize(same);
  return found;
}

std::string to_text(const FrozenTensors& frozen) {
  if (frozen.changed.empty())
    return frozen.num_same == 0
               ? ""
               : fmt::format(
                     "frozen: {} parameters are the same in all checkpoints that "
                     "have them frozen",
                     frozen.num_same);
  std::string text = "frozen parameters that changed, unless they were trained between:";
  for (const std::string& line : frozen.changed) text += "\n  - " + printable(line);
  return text;
}

nlohmann::json to_json(const FrozenTensors& frozen) {
  return {{"same", frozen.num_same}, {"changed", frozen.changed}};
}

}  // namespace zero::launcher
