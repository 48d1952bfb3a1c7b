#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/seconds.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/commands/new_model.h"
#include "launcher/commands/verbs.h"
#include "launcher/run/console.h"
#include "launcher/run/resume.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "zero/errors.h"
#include "zero/h5_weights.h"

namespace zero::launcher {
namespace {

using Renames = std::vector<std::pair<std::string, std::string>>;

// "GLOB=NAME", as many * in the one as in the other.
Renames renames_of(const std::vector<std::string>& maps, Problems& problems) {
  Renames renames;
  for (const std::string& map : maps) {
    const size_t equals = map.find('=');
    const std::string glob = map.substr(0, equals),
                      name = equals == map.npos ? "" : map.substr(equals + 1);
    const auto in_glob = std::ranges::count(glob, '*'),
               in_name = std::ranges::count(name, '*');
    if (glob.empty() || name.empty())
      problems.push_back(
          {fmt::format("map is \"{}\"; allowed: GLOB=NAME", map), "--map"});
    else if (in_glob != in_name)
      problems.push_back({fmt::format("map is \"{}\", with {} * before the = and {} "
                                      "behind it; allowed: as many",
                                      map, in_glob, in_name),
                          "--map"});
    renames.emplace_back(glob, name);
  }
  return renames;
}

struct ImportCall {
  std::string file, to;
  Renames renames;
  Settings settings;
};

// Throws one Error(kUsage) about the verb's own flags, or one about settings.
ImportCall read_call(const VerbCall& call) {
  const CommandLine& line = call.line;
  Problems problems = line.problems;
  ImportCall asked{line.from, line.to, renames_of(line.maps, problems), {}};
  if (line.to.empty())
    problems.push_back(
        {"to is missing; allowed: a folder without checkpoints", "--to DIR"});
  if (!problems.empty()) throw to_error(problems, "import");
  asked.settings =
      read_settings(line, call.environment, {.verb = "import", .models = &call.models});
  std::error_code error;
  if (!std::filesystem::exists(asked.file, error))
    throw Error(ExitCode::kUsage,
                error ? "import cannot look at the file: " + error.message()
                      : "import names a file that does not exist",
                asked.file, "import FILE.h5 --to DIR");
  require_no_steps(asked.to, "--to");
  return asked;
}

// Names that Hugging Face's files of the family have, and those of other parts.
SafetensorsNames usual_names(const NewModel& made) {
  SafetensorsNames names;
  if (const ConfigClass* of = find_class(made.family, made.shape.config)) {
    names.prefix = of->prefix;
    names.dead = of->dead;
  }
  names.elsewhere = names_of_other_parts(made.family, made.shape);
  return names;
}

void tell_names(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  tell(fmt::format("{}: {} ({})", what, names.size(), fmt::join(first_few(names), ", ")));
}

void remove_if_empty(const std::string& path) try {
  const auto [above, name] = checkpoint::split_path(path);
  const auto nothing = [](const std::string&) { return false; };
  checkpoint::remove_ours(checkpoint::Folder(above), name, nothing);
} catch (const FileError&) {
  // it stays, and the first error is told
}

// A folder that is new goes again where the file's values cannot be used.
std::string save(H5Weights& weights, const std::string& to, const SavedState& state) {
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(to, ignored);
  try {
    const auto lock = take_folder(to, "--to");
    return weights.save(to, state);
  } catch (...) {
    if (is_new) remove_if_empty(to);
    throw;
  }
}

// The datasets of an HDF5 file as a checkpoint without moments. Nothing is written before
// all of them fit.
int import_file(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const ImportCall asked = read_call(call);
  const auto start = std::chrono::steady_clock::now();
  const NewModel made = new_model(call.models, asked.settings);
  H5Weights weights(*made.model->module(), made.options, asked.file,
                    {asked.renames, usual_names(made)});
  const std::string path = save(weights, asked.to, made.state);
  tell_names("not read, as weights do not need it", weights.unread());
  tell_names("rounded from fp64 to fp32", weights.rounded());
  print_line(fmt::format("imported {} tensors of {} from {} in {:.2f} s: {}",
                         weights.num_tensors(), made.family.name, asked.file,
                         seconds_since(start), printable(path)));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb import_verb() {
  return {
      .name = "import",
      .summary = "an HDF5 file's weights, to start from (import FILE --to DIR)",
      .run = import_file,
      .head =
          "zero_launch import FILE --to DIR [--map 'GLOB=NAME'...] [--model NAME] "
          "[--preset NAME]...\n\nThe datasets of a plain HDF5 file, as h5py writes it, "
          "become a checkpoint that train --init-from DIR starts from. Settings say "
          "which model they are of. They are read as train reads them; these count "
          "here.",
      .lines = {{"FILE, --from FILE",
                 "datasets of fp16, bf16, fp32 or fp64, which is rounded; a name is "
                 "their path, with dots for /"},
                {"--to DIR", "a folder without checkpoints"},
                {"--map GLOB=NAME...",
                 "other names: * in NAME is what * in GLOB stands for, and the first "
                 "GLOB that matches counts; 'model.*=transformer.*'"},
                kConfigLine},
      .settings =
          "model preset layers dim heads kv_heads ffn_dim vocab model_config parts "
          "dropout data bytes seq_len",
      .has_groups = false,
      .folder = "an HDF5 file of weights",
      .takes_file = true};
}

}  // namespace zero::launcher
