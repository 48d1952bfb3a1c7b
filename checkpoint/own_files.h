#pragma once

#include <string>
#include <string_view>

#include "checkpoint/file.h"

// The files that this program may replace: its own. Nothing that others have made is
// replaced, whatever kind of thing it is.
namespace zero::checkpoint {

// Make `text` the whole of `name` in one step. A file of that name is ours if it is
// regular and begins with `begin`; anything else that is there stays, and is named in a
// CheckpointError.
void replace_text(const Folder& folder, const std::string& name, std::string_view text,
                  std::string_view begin, Io& io = system_io());

// The same for PATH.
void replace_text(const std::string& path, std::string_view text, std::string_view begin);

// Throw as replace_text() would for what is there, before work is done for it.
void require_ours(const Folder& folder, const std::string& name, std::string_view begin);

// Give a file the first of the names NAME.1, NAME.2 ... that is free; returns it.
std::string set_file_aside(const Folder& folder, const std::string& name,
                           Io& io = system_io());

}  // namespace zero::checkpoint
