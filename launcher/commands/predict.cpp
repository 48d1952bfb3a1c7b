// The class of each image, as a checkpoint's model sees it.
#include "launcher/inference/predict.h"

#include <string>

#include "launcher/commands/use_checkpoint.h"
#include "launcher/data/images/image_source.h"
#include "launcher/run/new_file.h"
#include "launcher/settings/chosen_data.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

PredictionFormat format_of(const std::string& path, const LoadedModel& loaded,
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
  const auto produce = [&](const WriteBytes& write) {
    write(format.head);
    predict(*loaded.runner, loaded.engine->control(), *samples, loaded.batch,
            source.num_images(), [&](int64_t image, std::span<const float> logits) {
              write(format.row(image, logits));
            });
  };
  write_result(loaded.batch.rank == 0, path, {"--out FILE", "predictions"}, produce);
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
