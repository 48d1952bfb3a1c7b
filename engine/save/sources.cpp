#include "engine/save/sources.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/tensor.h"
#include "offload/stored_values.h"

namespace zero {
namespace {

using checkpoint::CheckpointError;
using checkpoint::TensorType;
using checkpoint::to_string;

class Finder {
 public:
  Finder(const OfferedTensors& tensors, const SafetensorsNames& names)
      : tensors_(tensors), names_(names) {}

  // The names in the file of a tensor of the model.
  std::vector<std::string> find(const WantedTensor& wanted) {
    std::vector<std::string> found;
    for (const std::string& fqn : wanted.fqns) {
      const bool has_prefix = !names_.prefix.empty() && fqn.starts_with(names_.prefix);
      const std::string bare = has_prefix ? fqn.substr(names_.prefix.size()) : fqn;
      auto inners = std::set{fqn, bare};
      for (const auto& [ours, theirs] : names_.renamed)
        if (const auto other = renamed(ours, fqn, theirs)) inners.insert(*other);
      for (const std::string& inner : inners) {
        const std::string name = names_.outer + inner;
        const auto tensor = tensors_.find(name);
        if (tensor == tensors_.end()) continue;
        used.insert(name);
        found.push_back(name);
        compare(name, tensor->second, wanted);
      }
    }
    if (found.empty() && !matches_any(names_.may_lack, wanted.fqns.front()))
      problems.push_back(wanted.fqns.front() + " is missing");
    return found;
  }

  std::set<std::string> used;
  std::vector<std::string> problems;

 private:
  void compare(const std::string& name, const TensorType& tensor,
               const WantedTensor& wanted) {
    if (tensor.shape != wanted.shape)
      problems.push_back(name + " is " + to_string(tensor.shape) + ", the model's is " +
                         to_string(wanted.shape));
    if (is_floating(tensor.dtype) != is_floating(wanted.dtype))
      problems.push_back(name + " is " + name_of(tensor.dtype) + ", the model's is " +
                         name_of(wanted.dtype));
  }

  const OfferedTensors& tensors_;
  const SafetensorsNames& names_;
};

// Some of what the model lacks in the file, and some of what the file has beside it: the
// one may be the other under another name.
[[noreturn]] void refuse(const std::string& file, const std::string& cure,
                         const std::vector<std::string>& unfit,
                         const std::vector<std::string>& unknown, size_t most) {
  std::string text =
      text_of(unfit.size() + unknown.size(), " tensor(s) do not fit the model:");
  for (const auto* problems : {&unfit, &unknown}) {
    for (size_t i = 0; i < std::min(most, problems->size()); ++i)
      text += "\n  - " + (*problems)[i];
    if (problems->size() > most)
      text += text_of("\n  - and ", problems->size() - most, " more",
                      problems == &unknown ? " that are not in the model" : "");
  }
  throw CheckpointError(file, "", text, cure);
}

}  // namespace

Sources find_sources(const std::vector<WantedTensor>& params,
                     const std::vector<WantedTensor>& buffers,
                     const OfferedTensors& tensors, const SafetensorsNames& names,
                     const std::string& file, const std::string& cure, size_t most) {
  Sources sources;
  std::vector<std::string> unknown;
  Finder finder(tensors, names);
  for (const WantedTensor& param : params) sources.of_param.push_back(finder.find(param));
  // Of a file without any they stay as they are: tables that every model makes anew.
  const bool has_any = std::ranges::any_of(buffers, [&](const WantedTensor& buffer) {
    return tensors.contains(buffer.fqns.front());
  });
  for (const WantedTensor& buffer : buffers) {
    if (!has_any) break;
    const auto found = finder.find(buffer);
    sources.of_buffer.push_back(found.empty() ? "" : found.front());
  }
  for (const auto& [name, tensor] : tensors) {
    if (finder.used.contains(name)) continue;
    const bool is_dead = matches_any(names.dead, name);
    auto& list = is_dead ? sources.dead : unknown;
    list.push_back(printable(name) + (is_dead ? "" : " is not in the model"));
  }
  if (!finder.problems.empty() || !unknown.empty())
    refuse(file, cure, finder.problems, unknown, most);
  return sources;
}

std::function<bool(const std::string&)> counts_by(const SafetensorsNames& names) {
  return [prefix = names.prefix,
          others = std::set<std::string>(names.elsewhere.begin(), names.elsewhere.end())](
             const std::string& name) {
    return !others.contains(name) && !others.contains(prefix + name);
  };
}

void require_equal(const std::string& file, const std::vector<std::string>& names,
                   int64_t begin, int64_t numel, const std::string& cure,
                   const std::function<void(const std::string& name, int64_t begin,
                                            std::span<float> out)>& read) {
  if (names.size() < 2) return;  // takes no memory
  std::vector<float> first(std::min(StoredValues::kFewAtOnce, numel)),
      second(first.size());
  for (size_t i = 1; i < names.size(); ++i) {
    for (int64_t at = 0; at < numel; at += StoredValues::kFewAtOnce) {
      const int64_t count = std::min(StoredValues::kFewAtOnce, numel - at);
      read(names[0], begin + at, std::span(first).first(count));
      read(names[i], begin + at, std::span(second).first(count));
      const auto are_equal = [](float a, float b) {
        return a == b || (std::isnan(a) && std::isnan(b));
      };
      if (std::equal(first.begin(), first.begin() + count, second.begin(), are_equal))
        continue;
      throw CheckpointError(
          file, names[i],
          "it is tied to " + names[0] + " in the model, and has other values here", cure);
    }
  }
}

}  // namespace zero
