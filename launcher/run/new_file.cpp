#include "launcher/run/new_file.h"

#include <cstdint>
#include <optional>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::CheckpointError;

void require_free(const checkpoint::Folder& folder, const std::string& name) {
  if (folder.has(name))
    throw CheckpointError(folder.path_of(name), "", "is there already");
}

}  // namespace

void write_result(bool is_first, const std::string& path, const NewFile& file,
                  const std::function<void(const WriteBytes&)>& produce) {
  if (!is_first)
    produce([](const std::string&) {});
  else if (path.empty())
    produce([&](const std::string& bytes) { print_text(bytes, file.what); });
  else
    write_new_file(path, file, produce);
}

void write_new_file(const std::string& path, const NewFile& told,
                    const std::function<void(const WriteBytes&)>& produce) {
  const auto [above, name] = checkpoint::split_path(path);
  std::optional<checkpoint::Folder> folder;
  try {
    require_free(folder.emplace(above), name);
  } catch (const CheckpointError& error) {
    throw Error(ExitCode::kUsage, "it " + error.problem(), path,
                told.flag + ": a new one, in a folder that is there");
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
    throw Error(ExitCode::kEnvironment,
                told.what + " cannot be written: " + error.problem(), path,
                "room on the disk");
  }
}

}  // namespace zero::launcher
