#include "launcher/look/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/names.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/resume.h"
#include "launcher/settings/names.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::StoredTensor;

// Is it there itself, and not in a folder below?
bool has_tensors(const std::string& dir) {
  try {
    const checkpoint::Folder folder(dir);
    if (folder.has(checkpoint::kManifestFile)) return true;
    return (folder.has(checkpoint::kSafetensorsFile) ||
            folder.has(checkpoint::kSafetensorsIndexFile)) &&
           checkpoint::list_steps(folder).empty();
  } catch (const checkpoint::CheckpointError&) {
    return false;
  }
}

bool is_shown(Kind kind, bool with_state) {
  return with_state || kind == Kind::kParam || kind == Kind::kBuffer;
}

// What a glob may mean: the FQNs that are shown, and other names of parameters.
std::set<std::string> names_in(const Manifest& manifest, bool with_state) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors)
    if (is_shown(tensor.kind, with_state)) names.insert(tensor.fqn);
  for (const auto& [alias, fqn] : manifest.aliases) names.insert(alias);
  return names;
}

// "; nearest: a.weight", or of a part of it: people forget what stands around a name.
std::string offer_nearest(const std::string& glob, const std::set<std::string>& names) {
  std::string wanted = glob;
  std::erase(wanted, '*');
  const std::string name = nearest(wanted, {names.begin(), names.end()});
  if (!name.empty()) return "; nearest: " + zero::printable(name);
  std::map<std::string, std::string> parts;  // and a name that has it
  for (const std::string& each : names)
    for (const std::string& part : split(each, '.')) parts.emplace(part, each);
  std::vector<std::string> words;
  for (const auto& [part, each] : parts) words.push_back(part);
  for (const std::string& part : split(wanted, '.')) {
    const std::string found = parts.contains(part) ? "" : nearest(part, words);
    if (!found.empty())
      return fmt::format("; nearest: {}, as in {}", zero::printable(found),
                         zero::printable(parts[found]));
  }
  return "";
}

}  // namespace

FoundFolder find_folder(const std::string& dir, const std::string& name) {
  FoundFolder found;
  const std::string allowed =
      "a run's folder, one of its steps, or a model's folder of Hugging Face";
  if (has_tensors(dir) || is_model_folder(dir)) {
    found.path = dir;
  } else {
    found.path = find_checkpoint(dir, name, allowed, &found.passed_over);
  }
  return found;
}

std::vector<const StoredTensor*> selected_tensors(const Manifest& manifest,
                                                  const Selection& selection) {
  const auto& [globs, with_state] = selection;
  std::set<std::string> by_alias;
  for (const auto& [alias, fqn] : manifest.aliases)
    if (matches_any(globs, alias)) by_alias.insert(fqn);
  std::vector<const StoredTensor*> selected;
  for (const StoredTensor& tensor : manifest.tensors) {
    const bool is_named = globs.empty() || matches_any(globs, tensor.fqn) ||
                          (!is_replicated(tensor.kind) && by_alias.contains(tensor.fqn));
    if (is_named && is_shown(tensor.kind, with_state)) selected.push_back(&tensor);
  }
  return selected;
}

void require_matches(const std::vector<const Manifest*>& manifests,
                     const Selection& selection) {
  const auto& [globs, with_state] = selection;
  std::set<std::string> names;
  for (const Manifest* manifest : manifests) names.merge(names_in(*manifest, with_state));
  std::string lost;
  for (const std::string& glob : globs) {
    const auto matches = [&](const std::string& name) { return glob_match(glob, name); };
    if (std::ranges::any_of(names, matches)) continue;
    lost += fmt::format("{}{} matches no tensor{}", lost.empty() ? "" : "\n  - ", glob,
                        offer_nearest(glob, names));
  }
  if (lost.empty()) return;
  throw Error(ExitCode::kUsage, lost, "--fqn",
              with_state ? "* stands for any text; inspect DIR lists all names"
                         : "* stands for any text; inspect DIR lists all names, and "
                           "--state counts what the optimizer keeps");
}

}  // namespace zero::launcher
