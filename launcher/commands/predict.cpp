// The class of each image, as a checkpoint's model sees it.
#include "launcher/inference/predict.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/commands/use_checkpoint.h"
#include "launcher/data/images/image_source.h"
#include "launcher/settings/chosen_data.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::CheckpointError;

// Told of pieces of the whole, one after the other.
using Write = std::function<void(const std::string& bytes)>;

void require_new(const checkpoint::Folder& folder, const std::string& name) {
  if (folder.has(name))
    throw CheckpointError(folder.path_of(name), "", "is there already");
}

[[noreturn]] void refuse_to_write(const std::string& why, const std::string& where) {
  throw Error(ExitCode::kEnvironment, "predictions cannot be written: " + why, where,
              "room on the disk");
}

// Nobody's file is written over, and a file has its name when it is whole.
void write_new_file(const std::string& path,
                    const std::function<void(const Write&)>& produce) {
  const auto [above, name] = checkpoint::split_path(path);
  std::optional<checkpoint::Folder> folder;
  try {
    require_new(folder.emplace(above), name);
  } catch (const CheckpointError& error) {
    throw Error(ExitCode::kUsage, "it " + error.problem(), path,
                "--out FILE: a new one, in a folder that is there");
  }
  try {
    checkpoint::replace_file(*folder, name, "", [&](checkpoint::File& file) {
      int64_t end = 0;
      produce([&](const std::string& bytes) {
        file.write(bytes.data(), bytes.size(), end, checkpoint::system_io());
        end += static_cast<int64_t>(bytes.size());
      });
    });
  } catch (const CheckpointError& error) {
    refuse_to_write(error.problem(), path);
  }
}

// Whoever reads them may have enough.
void write_to_stdout(const std::string& bytes) {
  const bool is_written =
      std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() &&
      std::fflush(stdout) == 0;
  if (!is_written && errno != EPIPE)
    refuse_to_write(std::strerror(errno), "standard output");
}

std::unique_ptr<PredictionFormat> format_of(const std::string& path,
                                            const LoadedModel& loaded,
                                            const data::ImageSource& source) {
  if (path.ends_with(".npy")) return npy_array(source.num_images(), loaded.shape.vocab());
  return json_lines(
      {[&](int64_t image) { return source.name(image); }, loaded.checkpoint.run.classes});
}

ExitCode predict_on(const CommandLine& line, LoadedModel& loaded) {
  require_task(loaded, Task::kImages, "predict");
  if (!line.flags.contains("data"))
    throw Error(ExitCode::kUsage, "the images are missing", "predict",
                "--data PATH...: images, or folders of them");
  const data::ImageSource source(loaded.settings.data, data::ImageLabels::kNone);
  const auto samples = source.samples(
      sample_shape(*loaded.family, loaded.shape, loaded.settings), {.shuffle = false});
  const std::string path = line.flags.contains("out") ? loaded.settings.out : "";
  const auto format = format_of(path, loaded, source);
  const auto produce = [&](const Write& write) {
    write(format->head());
    predict(*loaded.runner, loaded.engine->control(), *samples, loaded.batch,
            source.num_images(), [&](int64_t image, std::span<const float> logits) {
              write(format->row(image, logits));
            });
  };
  if (loaded.batch.rank > 0)
    produce([](const std::string&) {});
  else if (path.empty())
    produce(write_to_stdout);
  else
    write_new_file(path, produce);
  return ExitCode::kDone;
}

int predict_images(const VerbCall& call) {
  return use_checkpoint("predict", call, [&](LoadedModel& loaded) {
    return predict_on(call.line, loaded);
  });
}

}  // namespace

Verb predict_verb() {
  return {
      .name = "predict",
      .summary = "the class of each image (predict DIR --data PATH...)",
      .run = predict_images,
      .head =
          head_with_settings("predict", "DIR --data PATH... [--out FILE]", kCheckpoints),
      .lines = {kDirLine, kConfigLine},
      .notes =
          "\n--data: images, folders of them, or files of CIFAR or NumPy; labels do not "
          "matter. A line of JSON is printed for each.\n"
          "--out FILE: a new file for them instead; of the suffix .npy it is an array "
          "(images, classes) of logits.\n",
      .settings = kMachine + " data micro_batch out",
      .folder = kStepOrModelFolder};
}

}  // namespace zero::launcher
