#include "engine/unit/ignored_params.h"

#include <set>
#include <utility>

#include "base/names.h"
#include "zero/errors.h"

namespace zero {
namespace {

// Index of the first pattern that matches a name or a module above it; -1: none.
int ignored_by(const std::vector<Ignored>& ignored, const std::string& name) {
  for (size_t i = 0; i < ignored.size(); ++i) {
    const std::string& pattern = ignored[i].pattern;
    if (glob_match(pattern, name) || glob_match(pattern + ".*", name))
      return static_cast<int>(i);
  }
  return -1;
}

std::string told(const std::vector<Ignored>& ignored, int index) {
  if (index < 0) return "which nothing matches";
  return "which '" + ignored[index].pattern +
         (ignored[index].averaged ? "' averages" : "' leaves alone");
}

// The same under all names of a parameter. `used` gets all patterns.
int ignored_by(const std::vector<Ignored>& ignored, const ParamDescription& param,
               std::set<int>& used) {
  const int first = ignored_by(ignored, param.names.front());
  used.insert(first);
  for (const std::string& name : param.names) {
    const int other = ignored_by(ignored, name);
    used.insert(other);
    const bool is_alike =
        (first < 0) == (other < 0) &&
        (first < 0 || ignored[first].averaged == ignored[other].averaged);
    if (is_alike) continue;
    reject("one tied parameter would be ignored in part",
           param.names.front() + ", " + told(ignored, first) + ", and " + name + ", " +
               told(ignored, other),
           "let Options::ignored match all of its names");
  }
  return first;
}

}  // namespace

void leave_out(ScannedModel& model, const std::vector<Ignored>& ignored) {
  if (ignored.empty()) return;
  std::set<int> used;
  std::vector<ParamDescription> params;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < model.params.size(); ++i) {
    const int by = ignored_by(ignored, model.params[i], used);
    if (by < 0) {
      params.push_back(std::move(model.params[i]));
      tensors.push_back(model.tensors[i]);
      continue;
    }
    for (const std::string& name : model.params[i].names) check_fqn(name);
    model.buffer_fqns.push_back(model.params[i].fqn);
    model.buffers.push_back(model.tensors[i]);
    model.ignored.push_back(
        {std::move(model.params[i].names), ignored[by].averaged, model.tensors[i]});
  }
  for (size_t i = 0; i < ignored.size(); ++i) {
    if (used.contains(static_cast<int>(i))) continue;
    reject(
        "'" + ignored[i].pattern + "' matches no parameter" +
            (i > 0 ? " that patterns before it have left" : ""),
        "Options::ignored",
        "* stands for any text; names look like " +
            (params.empty() ? model.ignored.front().names.front() : params.front().fqn));
  }
  model.params = std::move(params);
  model.tensors = std::move(tensors);
}

int64_t ignored_bytes(const ScannedModel& model, const Options& options) {
  int64_t bytes = 0;
  for (const IgnoredParam& param : model.ignored) {
    const bool is_trained = param.tensor.requires_grad() && !options.inference;
    bytes += static_cast<int64_t>(param.tensor.nbytes()) * (is_trained ? 2 : 1);
  }
  return bytes;
}

void add_ignored(std::vector<MemoryEntry>& entries, const ScannedModel& model,
                 const Options& options, bool has_own_memory) {
  const int64_t bytes = ignored_bytes(model, options);
  if (bytes > 0)
    entries.push_back({"ignored parameters", has_own_memory ? "device" : "host", bytes});
}

}  // namespace zero
