#pragma once
#include "launcher/model.h"

namespace zero {

// Run one verb of the command line (train, ...) with these models; returns the process's
// exit code. Errors are printed as three lines by the lowest failing rank.
int launch(int argc, char** argv, const ModelFamilies& models);

}  // namespace zero
