#include "launcher/run/new_file.h"

#include <climits>
#include <cstdint>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/own_files.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::CheckpointError;

// Of a file that is not there.
checkpoint::Folder folder_of(const std::string& path, const NewFile& told) try {
  const auto [above, name] = checkpoint::split_path(path);
  checkpoint::Folder folder(above);
  if (name.size() > NAME_MAX) throw CheckpointError(path, "", "its name is too long");
  if (folder.has(name)) throw CheckpointError(path, "", "it is there already");
  return folder;
} catch (const CheckpointError& error) {
  throw Error(ExitCode::kUsage, error.problem(), path,
              told.flag + ": a new one, in a folder that is there");
}

}  // namespace

void require_new_file(const std::string& path, const NewFile& file) {
  folder_of(path, file);
}

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
  const checkpoint::Folder folder = folder_of(path, told);
  const std::string name = checkpoint::split_path(path).name;
  try {
    checkpoint::replace_file(folder, name, "", [&](checkpoint::File& file) {
      int64_t end = 0;
      produce([&](const std::string& bytes) {
        file.write(bytes.data(), bytes.size(), end, checkpoint::system_io());
        end += static_cast<int64_t>(bytes.size());
      });
    });
  } catch (const CheckpointError& error) {
    throw Error(ExitCode::kCheckpoint,
                told.what + " cannot be written: " + error.problem(), path, error.cure());
  }
}

}  // namespace zero::launcher
