#include "launcher/look/inspect.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "base/files.h"
#include "checkpoint/buffer.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "engine/watch/activity.h"
#include "launcher/bench/rounds.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/shallow_json.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::StoredTensor;

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_unreadable(path, "examine", errno);
  return status;
}

std::string shape_of_checkpoint(const Manifest& manifest, const std::string& path,
                                const ModelFamilies& models) {
  const SavedRun run = parse_saved_run(manifest.config, path);
  const ModelFamily& family = require_family_of(models, run, path);
  return family.name + ": " + shape_text(shape_of_run(family, run, run.settings));
}

std::string shape_of_model_folder(const std::string& path, const ModelFamilies& models) {
  const ModelFolder folder = read_model_folder(path, models, "DIR");
  const ModelShape shape{folder.config, find_family(models, folder.family)->keys};
  return folder.family + ": " + shape_text(shape);
}

// A folder can be looked into whoever made it: what does not tell its model has tensors
// all the same.
void describe_model(Inspection& inspection, const ModelFamilies& models) {
  try {
    inspection.model =
        inspection.is_checkpoint
            ? shape_of_checkpoint(inspection.about, inspection.path, models)
            : shape_of_model_folder(inspection.path, models);
  } catch (const Error& error) {
    inspection.notes.push_back(error.problem());
  } catch (const checkpoint::CheckpointError& error) {
    inspection.notes.push_back(error.what());
  }
}

void describe_files(Inspection& inspection, const checkpoint::TensorFolder& folder) {
  std::vector<std::string> files = folder.files();
  if (folder.is_checkpoint())
    files.push_back(inspection.path + "/" + checkpoint::kManifestFile);
  inspection.num_files = std::ssize(files);
  for (const std::string& file : files) inspection.num_bytes += status_of(file).st_size;
  // The manifest is written last.
  const std::time_t time = status_of(files.back()).st_mtime;
  inspection.written = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(time));
}

void count_tensors(Inspection& inspection, const Manifest& manifest) {
  for (const StoredTensor& tensor : manifest.tensors) {
    ++inspection.kinds[tensor.kind];
    if (tensor.kind == Kind::kParam) inspection.num_parameters += tensor.numel();
  }
}

int64_t bytes_of(const std::vector<const StoredTensor*>& tensors) {
  int64_t bytes = 0;
  for (const StoredTensor* tensor : tensors) bytes += tensor->num_bytes();
  return bytes;
}

Summary summary_of(checkpoint::TensorFolder& folder, const StoredTensor& tensor,
                   const checkpoint::Buffer& room) {
  Summary summary;
  for_each_piece(tensor.numel(), size_of(tensor.dtype), [&](int64_t begin, int64_t n) {
    folder.read(tensor, begin, n, room.data());
    summary.add(tensor.dtype, room.data(), n);
  });
  return summary;
}

// ---- as text

std::string kinds_text(const Inspection& inspection) {
  std::string text;
  for (const auto& [kind, number] : inspection.kinds)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, name_of(kind));
  return text.empty() ? "no tensors" : text;
}

std::string what_text(const Inspection& inspection) {
  if (!inspection.is_checkpoint) return "safetensors";
  const bool has_state = std::ranges::any_of(inspection.kinds, [](const auto& each) {
    return std::ranges::count(checkpoint::kStateKinds, each.first) > 0;
  });
  return fmt::format("checkpoint of step {} by {} rank(s){}", inspection.about.step,
                     inspection.about.world_size,
                     has_state ? "" : ", without an optimizer's state");
}

std::string position_text(const Inspection& inspection) {
  try {
    const Progress at = parse_progress(inspection.about.position, inspection.path);
    return fmt::format("{} samples in {} batches were taken, {} of these skipped",
                       fmt::group_digits(at.num_samples),
                       fmt::group_digits(at.num_batches), at.num_bad);
  } catch (const Error&) {
    return "";  // another program's
  }
}

std::string header(const Inspection& inspection) {
  std::string text =
      "zero_launch inspect\n" + labelled("folder", inspection.path) +
      labelled("", what_text(inspection) + ", written " + inspection.written);
  for (const std::string& newer : inspection.passed_over)
    text += labelled("", "newer, but damaged: " + newer);
  if (!inspection.model.empty()) text += labelled("model", inspection.model);
  for (const std::string& note : inspection.notes) text += labelled("model", note);
  text += labelled("holds", fmt::format("{}; {} parameters", kinds_text(inspection),
                                        fmt::group_digits(inspection.num_parameters)));
  text +=
      labelled("bytes", fmt::format("{} in {} file(s)", short_bytes(inspection.num_bytes),
                                    inspection.num_files));
  const Manifest& about = inspection.about;
  if (const std::string at = position_text(inspection);
      inspection.is_checkpoint && !at.empty())
    text += labelled("data", at);
  for (const auto& [name, number] : about.engine)
    text += labelled("engine", fmt::format("{} {}", name, number));
  for (const auto& [alias, fqn] : about.aliases)
    text += labelled("tied", alias + " is " + fqn);
  return text;
}

Row row_of(const Inspected& inspected) {
  const StoredTensor& tensor = inspected.tensor;
  Row row = {{"fqn", tensor.fqn},
             {"kind", name_of(tensor.kind)},
             {"type", name_of(tensor.dtype)},
             {"shape", tensor.shape}};
  if (!inspected.summary) return row;
  const Summary& summary = *inspected.summary;
  row["norm"] = summary.norm();
  const bool has_any = summary.num_finite > 0;
  row["min"] = has_any ? Row(summary.min) : Row();
  row["max"] = has_any ? Row(summary.max) : Row();
  row["mean"] = has_any ? Row(summary.mean()) : Row();
  row["nan"] = summary.num_nan;
  row["inf"] = summary.num_inf;
  return row;
}

std::vector<Row> rows_of(const Inspection& inspection) {
  std::vector<Row> rows;
  for (const Inspected& inspected : inspection.tensors) rows.push_back(row_of(inspected));
  return rows;
}

// Of what others have written, which may be no JSON.
Row json_or_text(const std::string& text) {
  Row found = parse_shallow<Row>(text);
  return found.is_discarded() ? Row(text) : found;
}

}  // namespace

Inspection inspect_folder(const std::string& dir, const Selection& selection,
                          bool reads_values, const ModelFamilies& models) {
  FoundFolder found = find_folder(dir);
  checkpoint::TensorFolder folder(found.path);
  const Manifest& manifest = folder.manifest();
  require_matches({&manifest}, selection);
  Inspection inspection;
  inspection.path = found.path;
  inspection.passed_over = std::move(found.passed_over);
  inspection.is_checkpoint = folder.is_checkpoint();
  static_cast<checkpoint::StepInfo&>(inspection.about) = manifest;
  inspection.about.world_size = manifest.world_size;
  describe_model(inspection, models);
  describe_files(inspection, folder);
  count_tensors(inspection, manifest);
  const auto selected = selected_tensors(manifest, selection);
  Activity::Stretch stretch("inspect");
  if (reads_values) stretch.expect(bytes_of(selected));
  const checkpoint::Buffer room(kPieceBytes);
  for (const StoredTensor* tensor : selected) {
    Inspected& inspected = inspection.tensors.emplace_back();
    inspected.tensor = {tensor->kind, tensor->fqn, tensor->dtype, tensor->shape};
    if (reads_values) inspected.summary = summary_of(folder, *tensor, room);
  }
  return inspection;
}

std::string to_page(const Inspection& inspection) {
  return printable(header(inspection) + "\n" + to_table(rows_of(inspection)));
}

std::string to_line(const Inspection& inspection) {
  Row kinds = Row::object();
  for (const auto& [kind, number] : inspection.kinds) kinds[name_of(kind)] = number;
  const Manifest& about = inspection.about;
  Row object = {{"folder", inspection.path},
                {"format", inspection.is_checkpoint ? "checkpoint" : "safetensors"},
                {"written", inspection.written},
                {"files", inspection.num_files},
                {"bytes", inspection.num_bytes},
                {"parameters", inspection.num_parameters},
                {"kinds", kinds},
                {"model", inspection.model},
                {"notes", inspection.notes},
                {"passed_over", inspection.passed_over}};
  if (inspection.is_checkpoint) {
    object["step"] = about.step;
    object["ranks"] = about.world_size;
    object["aliases"] = about.aliases;
    object["engine"] = about.engine;
    object["position"] = json_or_text(about.position);
    object["config"] = json_or_text(about.config);
  }
  object["tensors"] = rows_of(inspection);
  return json_text(object) + "\n";
}

}  // namespace zero::launcher
