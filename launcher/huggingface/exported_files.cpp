#include "launcher/huggingface/exported_files.h"

#include <sys/file.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/open_run.h"
#include "checkpoint/own_files.h"
#include "checkpoint/safetensors.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointError;

constexpr char kWhat[] = "export";

// By the names that from_pretrained() looks for; "model-mine.safetensors" is none.
bool is_weights(const std::string& name) {
  int part = 0, parts = 0, length = 0;
  const bool is_part = std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &part,
                                   &parts, &length) == 2 &&
                       length == static_cast<int>(name.size());
  return is_part || name == "model.safetensors" ||
         name == "model.safetensors.index.json" || name == checkpoint::kAdapterFile;
}

bool is_of_adapters(const std::string& name) {
  return name == checkpoint::kAdapterFile || name == kAdapterConfig;
}

// Without it nobody takes the rest for a model, or an adapter.
bool is_config(const std::string& name) {
  return name == "config.json" || name == kAdapterConfig;
}

bool is_of_model(const std::string& name) {
  return is_weights(name) || is_config(name) || is_companion(name) ||
         checkpoint::is_temporary(name);
}

}  // namespace

std::string first_of_others(const std::string& folder, bool of_adapters) {
  for (const std::string& name : checkpoint::Folder(folder).names())
    if ((is_weights(name) || is_config(name)) && is_of_adapters(name) != of_adapters)
      return name;
  return "";
}

// One that is at work holds its folder.
void remove_left_behind(const std::string& target) {
  const auto [above, name] = checkpoint::split_path(target);
  std::error_code error;
  if (!fs::is_directory(above, error)) return;
  const checkpoint::Folder folder(above);
  for (const std::string& left : folder.names()) {
    const bool is_of_target =
        left.starts_with(name + ".") && folder.has_folder(left) &&
        checkpoint::is_temporary(left.substr(name.size() + 1), kWhat);
    if (!is_of_target) continue;
    try {
      const checkpoint::Folder inner = folder.subfolder(left);
      if (::flock(inner.descriptor(), LOCK_EX | LOCK_NB) != 0) continue;
      if (!checkpoint::remove_ours(folder, left, is_of_model)) continue;
    } catch (const CheckpointError&) {  // somebody else's, or gone
      continue;
    }
    tell("removed what an export that was killed had left: " + folder.path_of(left));
  }
}

checkpoint::OwnFolder make_partial(const std::string& target) try {
  const auto [above, name] = checkpoint::split_path(target);
  checkpoint::make_run_folder(above);
  return {above, name + "." + checkpoint::temporary_name(kWhat)};
} catch (const CheckpointError& error) {
  throw Error(ExitCode::kUsage, error.problem(), target,
              "--to DIR: a new folder where files may be written");
}

void publish(const std::string& partial, const std::string& to, checkpoint::Io& io) {
  const auto [above, name_of_target] = checkpoint::split_path(to);
  const checkpoint::Folder parent(above), from(partial);
  const std::string name_of_partial = checkpoint::split_path(partial).name;
  if (!parent.has(name_of_target)) {
    checkpoint::rename_ours(parent, name_of_partial, name_of_target, io);
    return parent.sync(io);
  }
  const checkpoint::Folder target(to);
  for (const std::string& name : target.names())
    if (is_weights(name) || is_config(name) || from.has(name))
      target.open(name);  // or it stays as it is
  const bool of_adapters = from.has(kAdapterConfig);
  for (const auto is_old : {is_config, is_weights})
    for (const std::string& name : target.names())
      if (is_old(name) && is_of_adapters(name) == of_adapters)
        checkpoint::remove_file(target, name, io);
  const auto move = [&](const std::string& name) {
    checkpoint::rename_ours(parent, name_of_partial + "/" + name,
                            name_of_target + "/" + name, io);
  };
  for (const bool of_configs : {false, true})
    for (const std::string& name : from.names())
      if (is_config(name) == of_configs) move(name);
  target.sync(io);
}

}  // namespace zero::launcher
