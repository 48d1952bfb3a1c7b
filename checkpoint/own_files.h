#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "checkpoint/file.h"

// The one place from which files are replaced, renamed and removed. Whatever others have
// made stays as it is: links, pipes, devices and folders, and files that begin otherwise
// than ours. (scripts/check_own_files.py)
namespace zero::checkpoint {

// --- replace

// Throw CheckpointError, which names what is there, unless `name` is free or a regular
// file that begins with `begin`.
void require_ours(const Folder& folder, const std::string& name, std::string_view begin);

// Make what `write` writes the whole of `name` in one step, as far as require_ours()
// allows. When something fails, `name` is what it was.
void replace_file(const Folder& folder, const std::string& name, std::string_view begin,
                  const std::function<void(File&)>& write, Io& io = system_io());

// The same with `text`.
void replace_text(const Folder& folder, const std::string& name, std::string_view text,
                  std::string_view begin, Io& io = system_io());
void replace_text(const std::string& path, std::string_view text, std::string_view begin);

// --- rename: from a name that is ours, to one that is free or ours

void rename_ours(const Folder& folder, const std::string& from, const std::string& to,
                 Io& io);

// Two names trade places atomically. False: this file system cannot do that.
bool exchange_ours(const Folder& folder, const std::string& one, const std::string& other,
                   Io& io);

// A second name for a file, never over an old one. False: see errno.
bool link_ours(const Folder& folder, const std::string& from, const std::string& to,
               Io& io);

// `name`, or the first of NAME.1, NAME.2 ... that is free.
std::string free_name(const Folder& folder, const std::string& name);

// Give a file such a name; returns it.
std::string set_file_aside(const Folder& folder, const std::string& name,
                           Io& io = system_io());

// --- remove

// A regular file; anything else stays, and is named in a CheckpointError.
void remove_file(const Folder& folder, const std::string& name, Io& io = system_io());

// A file that this process has made and does not need. What cannot be removed stays.
void discard_file(const Folder& folder, const std::string& name, Io& io) noexcept;

// A regular file, or a folder with those of its files that `belongs` names. False: it
// stays, as it is something else, or somebody else's files are in it.
using Belongs = std::function<bool(const std::string&)>;
bool remove_ours(const Folder& folder, const std::string& name, const Belongs& belongs,
                 Io& io = system_io());

// A folder that this process has made, with all that is in it; links are not followed.
// What cannot be removed stays.
void discard_tree(const Folder& folder, const std::string& name, Io& io) noexcept;

}  // namespace zero::checkpoint
