#pragma once

#include <string>

#include "checkpoint/io.h"
#include "checkpoint/own_folder.h"

// The files of an exported model, which are beside their target until they are whole.
namespace zero::launcher {

// A folder's first file of a model, where adapters shall go, or of adapters, where a
// model shall: "" if there is none.
std::string first_of_others(const std::string& folder, bool of_adapters);

// What killed exports have left beside this target is removed, and told.
void remove_left_behind(const std::string& target);

// A folder for the files. Lock it, or another export takes it for left behind. Throws
// Error(kUsage) where none can be made.
checkpoint::OwnFolder make_partial(const std::string& target);

// Give the folder the target's name, in one step. Into a folder that is there files move
// one by one: the old config.json (of an adapter: adapter_config.json) goes first and the
// new one comes last, so that what has one is whole. Throws CheckpointError before
// anything changed where a file of that name is somebody else's.
void publish(const std::string& partial, const std::string& target,
             checkpoint::Io& io = checkpoint::system_io());

}  // namespace zero::launcher
