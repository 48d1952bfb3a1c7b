#include "launcher/huggingface/export.h"

#include <fmt/format.h>

#include "launcher/commands/verbs.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/resume.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr size_t kMostParts = 256;

ExportOptions options_of(const CommandLine& line) {
  Problems problems = line.problems;
  ExportOptions options;
  options.to = line.to;
  options.replace = line.replace;
  if (line.merge && line.adapter)
    problems.push_back({"--merge and --adapter exclude each other", "command line"});
  if (line.merge) options.adapters = Adapters::kMerge;
  if (line.adapter) options.adapters = Adapters::kAlone;
  if (line.to.empty())
    problems.push_back({"to is missing; allowed: a new folder", "--to DIR"});
  if (!line.config_file.empty())
    problems.push_back({"export takes no settings but dtype", "--config"});
  for (const auto& [key, value] : line.flags) {
    if (key != "dtype") {
      problems.push_back({key == "out" ? "the new folder stands behind --to"
                                       : "export takes no settings but dtype",
                          value.origin});
      continue;
    }
    options.dtype = value.words.size() == 1 ? dtype_named(value.words[0]) : std::nullopt;
    if (options.dtype != DType::kFp32 && options.dtype != DType::kBf16 &&
        options.dtype != DType::kFp16)
      problems.push_back({fmt::format("dtype is \"{}\"; allowed: fp32, bf16 or fp16",
                                      fmt::join(value.words, " ")),
                          value.origin});
  }
  if (!line.max_shard_size.empty()) {
    options.max_file_bytes = parse_size(line.max_shard_size).value_or(0);
    if (options.max_file_bytes <= 0)
      problems.push_back(
          {fmt::format("max_shard_size is \"{}\"; allowed: bytes such as 5GB",
                       line.max_shard_size),
           "--max-shard-size"});
  }
  if (!problems.empty()) throw to_error(problems, "export");
  std::vector<std::string> folders = line.folders;
  folders.insert(folders.begin(), line.from);
  for (const std::string& folder : folders) {
    if (is_model_folder(folder)) {
      throw Error(ExitCode::kUsage, "--from names a folder of Hugging Face already",
                  folder, "a run's folder or one of its steps");
    }
    options.from.push_back(find_and_tell(folder, "--from"));
  }
  return options;
}

// What stands beside the weights, or should.
std::string companions_text(const Exported& exported) {
  if (!exported.companions.empty())
    return fmt::format("; {}", fmt::join(exported.companions, ", "));
  return exported.is_of_language ? "; the run has no tokenizer's files" : "";
}

// A checkpoint's model as a folder that transformers loads.
int export_folder(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const ExportOptions options = options_of(call.line);
  Exported exported;
  use_step(options.from.front(), [&] { exported = export_model(options, call.models); });
  print_line(fmt::format("exported {} to {}: {} tensors of {}, {} in {} file(s){}",
                         fmt::join(options.from, " and "), options.to,
                         exported.num_tensors, name_of(exported.dtype),
                         short_bytes(exported.num_bytes), exported.files.size(),
                         companions_text(exported)));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb export_verb() {
  return {
      .name = "export",
      .summary = "a checkpoint's model for Hugging Face (export DIR --to DIR)",
      .run = export_folder,
      .head =
          "zero_launch export DIR --to DIR [--dtype fp32|bf16|fp16] "
          "[--merge|--adapter]\n"
          "zero_launch export A B... --to DIR",
      .lines = {{"DIR, --from DIR", "a step's folder, or a run's: its newest checkpoint"},
                {"A B...",
                 "of each the same, with other parts (--parts) of one model, "
                 "which becomes whole"},
                {"--to DIR",
                 "a new folder, which from_pretrained() of transformers loads"},
                {"--dtype fp32|bf16|fp16",
                 "of the weights; left out: that of the config.json that the run started "
                 "from, else fp32"},
                {"--max-shard-size BYTES", "the most in a file of weights [5GiB]"},
                {"--merge", "of a run with --lora: add its adapters to the weights"},
                {"--adapter",
                 "the adapters alone, as peft's from_pretrained() loads them"},
                {"--replace", "a model that is in the folder"}},
      .folder = kStepFolder,
      .num_more = kMostParts - 1};
}

}  // namespace zero::launcher
