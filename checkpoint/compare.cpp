#include "checkpoint/compare.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

bool is_looked_for(Kind kind, bool with_state) {
  if (std::ranges::count(kStateKinds, kind) > 0) return with_state;
  return kind == Kind::kParam || kind == Kind::kBuffer;
}

// Either side may have nothing.
std::string line(const char* what, const StoredTensor& tensor,
                 const std::string& expected, const std::string& found) {
  std::string text =
      std::string(what) + " " + name_of(tensor.kind) + "/" + printable(tensor.fqn) + ": ";
  if (!expected.empty()) text += "the model has " + expected;
  if (!expected.empty() && !found.empty()) text += ", ";
  if (!found.empty()) text += "the checkpoint has " + found;
  return text;
}

}  // namespace

std::vector<std::string> compare(const std::vector<StoredTensor>& expected,
                                 const Manifest& manifest, bool with_state,
                                 const Allowances& allowed) {
  std::vector<std::string> differences, extra, shapes, types;
  std::set<std::pair<Kind, std::string>> wanted;
  for (const auto& tensor : expected) {
    const std::string shape = to_string(tensor.shape);
    const StoredTensor* found = manifest.find(tensor.kind, tensor.fqn);
    if (found == nullptr) {
      if (!matches_any(allowed.missing, tensor.fqn))
        differences.push_back(line("missing", tensor, shape, ""));
      continue;
    }
    wanted.emplace(found->kind, found->fqn);  // an alias stands for its parameter
    if (tensor.shape != found->shape)
      shapes.push_back(line("shape", tensor, shape, to_string(found->shape)));
    if (tensor.dtype != found->dtype)
      types.push_back(line("type", tensor, name_of(tensor.dtype), name_of(found->dtype)));
  }
  for (const auto& tensor : manifest.tensors) {
    const bool counts = is_looked_for(tensor.kind, with_state) &&
                        !wanted.contains({tensor.kind, tensor.fqn}) &&
                        !matches_any(allowed.extra, tensor.fqn);
    if (counts) extra.push_back(line("extra", tensor, "", to_string(tensor.shape)));
  }
  for (const auto* more : {&extra, &shapes, &types})
    differences.insert(differences.end(), more->begin(), more->end());
  return differences;
}

void require_none(const std::vector<std::string>& differences,
                  const std::string& checkpoint) {
  if (differences.empty()) return;
  const size_t count = differences.size();
  std::string text =
      text_of(count, count == 1 ? " difference" : " differences", " from the model");
  for (const auto& difference : differences) text += "\n  " + difference;
  throw CheckpointError(checkpoint, "", text,
                        "load it into the model it was saved from, of the same sizes, or "
                        "allow missing and extra names");
}

}  // namespace zero::checkpoint
