#include "checkpoint/h5_names.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

// The group of ours that a path begins with.
std::optional<Kind> kind_in(const std::string& path) {
  const size_t end = path.find('/');
  return end == path.npos ? std::nullopt : kind_named(path.substr(0, end));
}

}  // namespace

H5Names name_datasets(const H5Source& source, const std::vector<Rename>& renames) {
  const auto& datasets = source.datasets();
  const bool has_groups = std::ranges::any_of(datasets, [](const auto& dataset) {
    return kind_in(dataset.first) == Kind::kParam;
  });
  H5Names names;
  std::set<size_t> used;
  for (const auto& [path, dataset] : datasets) {
    const std::optional<Kind> kind = has_groups ? kind_in(path) : std::nullopt;
    if (kind && kind != Kind::kParam && kind != Kind::kBuffer) {
      names.ignored.push_back(path);
      continue;
    }
    std::string name = kind ? path.substr(path.find('/') + 1) : path;
    std::ranges::replace(name, '/', '.');
    for (size_t i = 0; i < renames.size(); ++i) {
      const auto& [pattern, to] = renames[i];
      const auto other = renamed(pattern, name, to);
      if (!other) continue;
      used.insert(i);
      name = *other;
      break;
    }
    const auto [first, is_new] = names.paths.emplace(name, path);
    if (!is_new)
      throw CheckpointError(source.path(), path,
                            text_of("its name is ", printable(name), ", as that of ",
                                    printable(first->second)),
                            "names that differ: see --map 'GLOB=NAME'");
  }
  for (size_t i = 0; i < renames.size(); ++i) {
    if (!used.contains(i)) names.unused.push_back(i);
  }
  return names;
}

}  // namespace zero::checkpoint
