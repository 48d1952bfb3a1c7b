#pragma once
#include <functional>
#include <string>

#include "launcher/model.h"
#include "launcher/run/loaded_model.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class World;

// What a verb does with a loaded model; collective. Rank 0 prints.
using UseModel = std::function<void(LoadedModel& model, const FoundCheckpoint& checkpoint,
                                    const Settings& settings)>;

// The frame of a verb that uses the checkpoint named by --from: find it, read settings
// from it and the command line, load the model, use it; returns the exit code.
int run_from_checkpoint(const std::string& verb, const CommandLine& line,
                        const ModelFamilies& models, const UseModel& use);

}  // namespace zero::launcher
