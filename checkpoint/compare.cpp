#include "checkpoint/compare.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/error.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& fqn) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return glob_match(pattern, fqn);
  });
}

bool is_widening(DType from, DType to) {
  if (to == DType::kFp32) return from == DType::kBf16 || from == DType::kFp16;
  return to == DType::kFp64 && (from == DType::kFp32 || is_widening(from, DType::kFp32));
}

void compare_one(const StoredTensor& expected, const StoredTensor& found,
                 const Allowances& allowed, Differences& differences) {
  if (expected.shape != found.shape) {
    differences.misshapen.push_back(
        {expected.kind, expected.fqn, to_string(expected.shape), to_string(found.shape)});
  }
  const bool is_allowed = allowed.widening && is_widening(found.dtype, expected.dtype);
  if (expected.dtype != found.dtype && !is_allowed) {
    differences.retyped.push_back(
        {expected.kind, expected.fqn, name_of(expected.dtype), name_of(found.dtype)});
  }
}

void append(std::string& text, const char* what, const std::vector<Mismatch>& list) {
  for (const auto& item : list) {
    text +=
        std::string("\n  ") + what + " " + name_of(item.kind) + "/" + printable(item.fqn);
    if (!item.expected.empty()) text += ": the model has " + item.expected;
    if (!item.found.empty()) {
      text += std::string(item.expected.empty() ? ": " : ", ") + "the checkpoint has " +
              item.found;
    }
  }
}

size_t count(const Differences& differences) {
  return differences.missing.size() + differences.extra.size() +
         differences.misshapen.size() + differences.retyped.size();
}

}  // namespace

bool Differences::empty() const { return count(*this) == 0; }

Differences compare(const std::vector<StoredTensor>& expected, const Manifest& manifest,
                    const std::vector<Kind>& kinds, const Allowances& allowed) {
  Differences differences;
  std::set<std::pair<Kind, std::string>> wanted;
  for (const auto& tensor : expected) {
    const StoredTensor* found = manifest.find(tensor.kind, tensor.fqn);
    if (found != nullptr) {
      wanted.emplace(found->kind, found->fqn);  // an alias stands for its parameter
      compare_one(tensor, *found, allowed, differences);
    } else if (!matches_any(allowed.missing, tensor.fqn)) {
      differences.missing.push_back(
          {tensor.kind, tensor.fqn, to_string(tensor.shape), ""});
    }
  }
  for (const auto& tensor : manifest.tensors) {
    const bool counts = std::count(kinds.begin(), kinds.end(), tensor.kind) > 0 &&
                        !wanted.contains({tensor.kind, tensor.fqn}) &&
                        !matches_any(allowed.extra, tensor.fqn);
    if (!counts) continue;
    differences.extra.push_back({tensor.kind, tensor.fqn, "", to_string(tensor.shape)});
  }
  return differences;
}

std::string to_string(const Differences& differences) {
  std::string text = std::to_string(count(differences)) + " differences from the model";
  append(text, "missing", differences.missing);
  append(text, "extra", differences.extra);
  append(text, "shape", differences.misshapen);
  append(text, "type", differences.retyped);
  return text;
}

void require_none(const Differences& differences, const std::string& checkpoint) {
  if (differences.empty()) return;
  throw CheckpointError(checkpoint, "", to_string(differences),
                        "load it into the model it was saved from, or allow missing and "
                        "extra names");
}

}  // namespace zero::checkpoint
