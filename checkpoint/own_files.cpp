#include "checkpoint/own_files.h"

#include <cerrno>

#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

void rename_in(const Folder& folder, const std::string& from, const std::string& to,
               Io& io) {
  if (io.rename(folder.descriptor(), from.c_str(), to.c_str()) != 0)
    throw_errno(folder.path_of(from), "rename to " + to, errno);
}

bool begins_with(const Folder& folder, const std::string& name, std::string_view begin) {
  const File file = folder.open(name);  // throws for what is not regular
  if (file.size_bytes() < std::ssize(begin)) return false;
  std::string found(begin.size(), '\0');
  file.read(found.data(), found.size(), 0);
  return found == begin;
}

}  // namespace

void require_ours(const Folder& folder, const std::string& name, std::string_view begin) {
  if (!folder.has(name) || begins_with(folder, name, begin)) return;
  throw CheckpointError(folder.path_of(name), "",
                        "a file is there that zero has not written, and it stays",
                        "another name, or move that file away");
}

void replace_text(const Folder& folder, const std::string& name, std::string_view text,
                  std::string_view begin, Io& io) {
  require_ours(folder, name, begin);
  const std::string temporary = temporary_name("text");
  try {
    write_text(folder, temporary, text, io);
    require_ours(folder, name, begin);
    rename_in(folder, temporary, name, io);
  } catch (const CheckpointError&) {
    io.unlink(folder.descriptor(), temporary.c_str(), false);
    throw;
  }
}

void replace_text(const std::string& path, std::string_view text,
                  std::string_view begin) {
  const auto [above, name] = split_path(path);
  replace_text(Folder(above), name, text, begin);
}

std::string set_file_aside(const Folder& folder, const std::string& name, Io& io) {
  int number = 1;
  std::string aside;
  do aside = name + "." + std::to_string(number++);
  while (folder.has(aside));
  rename_in(folder, name, aside, io);
  return aside;
}

}  // namespace zero::checkpoint
