#include "launcher/text/text_options.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "launcher/process/process.h"
#include "launcher/run/run_folder.h"
#include "launcher/text/python_child.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

// What --init-from may name besides a model's folder: a run, or one of its steps.
std::string tokenizer_of_start(const std::string& folder) {
  for (const std::string& place :
       {folder, source_folder(folder),
        source_folder(checkpoint::split_path(folder).folder)}) {
    if (const std::string path = tokenizer_of(place); !path.empty()) return path;
  }
  return "";
}

}  // namespace

std::string require_tokenizer(const std::string& path, const std::string& flag) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  const std::string found = tokenizer_of(path);
  if (!found.empty()) return found;
  if (!fs::exists(path, error))
    throw Error(ExitCode::kUsage, "the tokenizer does not exist", path,
                flag + " DIR: a model's folder; of the hub: hf download " + path +
                    " --local-dir DIR");
  const bool is_older = fs::exists(path + "/tokenizer.model", error) ||
                        fs::exists(path + "/vocab.json", error);
  throw Error(ExitCode::kUsage, "there is no tokenizer.json", path,
              is_older ? "transformers makes one of the files that are there: "
                         "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
                       : flag + " DIR: a model's folder that has one");
}

std::string find_tokenizer(const Settings& settings) {
  if (settings.bytes) return "";
  if (!settings.tokenizer.empty())
    return require_tokenizer(settings.tokenizer, "--tokenizer");
  const std::string kept =
      settings.out.empty() ? "" : tokenizer_of(source_folder(settings.out));
  if (!kept.empty() && settings.resume != "never" &&
      checkpoint::newest_complete(settings.out))
    return kept;
  return settings.init_from.empty() ? "" : tokenizer_of_start(settings.init_from);
}

TextOptions text_options(const Settings& settings, const std::string& tokenizer,
                         const std::string& folder, int64_t vocab) {
  return {.tokenizer = tokenizer,
          .separator = settings.separator,
          .text_key = settings.text_key,
          .train_on = settings.train_on,
          .end_of_turn = settings.end_of_turn,
          .special = settings.special_in_content,
          .date = settings.chat_date.empty() ? today() : settings.chat_date,
          .cache = settings.token_cache.empty() ? folder : settings.token_cache,
          .vocab = vocab,
          .command = child_command(settings.python)};
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)));
}

std::string folder_of_user() {
  const std::vector<std::string> environment = process_environment();
  const std::string caches = variable(environment, "XDG_CACHE_HOME").value_or("");
  return (caches.empty() ? variable(environment, "HOME").value_or("/tmp") + "/.cache"
                         : caches) +
         "/zero";
}

}  // namespace zero::launcher
