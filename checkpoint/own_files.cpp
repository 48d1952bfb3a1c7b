#include "checkpoint/own_files.h"

#include <cerrno>

#include "checkpoint/error.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

bool begins_with(const Folder& folder, const std::string& name, std::string_view begin) {
  const File file = folder.open(name);  // throws for what is not regular
  if (file.size_bytes() < std::ssize(begin)) return false;
  std::string found(begin.size(), '\0');
  file.read(found.data(), found.size(), 0);
  return found == begin;
}

void remove_name(const Folder& folder, const std::string& name, bool is_folder, Io& io) {
  if (io.unlink(folder.descriptor(), name.c_str(), is_folder) != 0)
    throw_errno(folder.path_of(name), "remove", errno);
}

}  // namespace

void require_ours(const Folder& folder, const std::string& name, std::string_view begin) {
  if (!folder.has(name) || begins_with(folder, name, begin)) return;
  throw CheckpointError(folder.path_of(name), "",
                        "a file is there that zero has not written, and it stays",
                        "another name, or move that file away");
}

void replace_file(const Folder& folder, const std::string& name, std::string_view begin,
                  const std::function<void(File&)>& write, Io& io) {
  require_ours(folder, name, begin);
  const std::string temporary = temporary_name("file");
  File file = folder.create(temporary, io);
  try {
    write(file);
    file.sync(io);
    require_ours(folder, name, begin);
    rename_ours(folder, temporary, name, io);
  } catch (...) {
    discard_file(folder, temporary, io);
    throw;
  }
}

void replace_text(const Folder& folder, const std::string& name, std::string_view text,
                  std::string_view begin, Io& io) {
  const auto write = [&](File& file) {
    file.announce_size(std::ssize(text));
    file.write(text.data(), text.size(), 0, io);
  };
  replace_file(folder, name, begin, write, io);
}

void replace_text(const std::string& path, std::string_view text,
                  std::string_view begin) {
  const auto [above, name] = split_path(path);
  replace_text(Folder(above), name, text, begin);
}

void rename_ours(const Folder& folder, const std::string& from, const std::string& to,
                 Io& io) {
  if (io.rename(folder.descriptor(), from.c_str(), to.c_str()) != 0)
    throw_errno(folder.path_of(from), "rename to " + to, errno);
}

bool exchange_ours(const Folder& folder, const std::string& one, const std::string& other,
                   Io& io) {
  if (io.exchange(folder.descriptor(), one.c_str(), other.c_str()) == 0) return true;
  const bool is_offered = errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP;
  if (is_offered) throw_errno(folder.path_of(other), "exchange with " + one, errno);
  return false;
}

bool link_ours(const Folder& folder, const std::string& from, const std::string& to,
               Io& io) {
  return io.link(folder.descriptor(), from.c_str(), to.c_str()) == 0;
}

std::string free_name(const Folder& folder, const std::string& name) {
  std::string result = name;
  for (int i = 1; folder.has(result); ++i) result = name + "." + std::to_string(i);
  return result;
}

std::string set_file_aside(const Folder& folder, const std::string& name, Io& io) {
  const std::string aside = free_name(folder, name);
  rename_ours(folder, name, aside, io);
  return aside;
}

void remove_file(const Folder& folder, const std::string& name, Io& io) {
  folder.size_of(name);  // throws for what is not regular
  remove_name(folder, name, false, io);
}

void discard_file(const Folder& folder, const std::string& name, Io& io) noexcept {
  io.unlink(folder.descriptor(), name.c_str(), false);
}

void discard_tree(const Folder& folder, const std::string& name, Io& io) noexcept {
  const bool is_folder = folder.has_folder(name);
  try {
    if (is_folder) {
      const Folder inner = folder.subfolder(name);
      for (const std::string& file : inner.names()) discard_tree(inner, file, io);
    }
  } catch (const CheckpointError&) {
  }
  io.unlink(folder.descriptor(), name.c_str(), is_folder);
}

bool remove_ours(const Folder& folder, const std::string& name, const Belongs& belongs,
                 Io& io) {
  if (!folder.has_folder(name)) {
    if (!folder.has_file(name)) return false;
    remove_name(folder, name, false, io);
    return true;
  }
  const Folder inner = folder.subfolder(name);
  for (const std::string& file : inner.names()) {
    if (belongs(file) && inner.has_file(file)) remove_name(inner, file, false, io);
  }
  if (!inner.names().empty()) return false;
  remove_name(folder, name, true, io);
  return true;
}

}  // namespace zero::checkpoint
