#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/process/world.h"
#include "launcher/settings/command_line.h"

namespace zero::launcher {

// What a verb is called with.
struct VerbCall {
  const CommandLine& line;
  const ModelFamilies& models;
  const std::vector<std::string>& environment;
  const std::optional<AnnouncedWorld>& announced;

  int rank() const { return announced ? announced->rank : 0; }
};

// The verbs return the process's exit code. They throw what is wrong before ranks know
// each other, and report all else themselves.

int train(const VerbCall& call);

// The first values of a new model as a checkpoint without moments, written by one process
// that never holds the model.
int seed(const VerbCall& call);

// Will this configuration fit, and what would? kDone when it does, else kEnvironment.
int plan(const VerbCall& call);

// The loss of a checkpoint's model on data.
int eval(const VerbCall& call);

// A prompt, continued by a checkpoint's model.
int generate_text(const VerbCall& call);

// What a checkpoint, or a folder of Hugging Face, holds: a table, or with --json an
// object.
int inspect(const VerbCall& call);

// Two of them, tensor by tensor. kDone when all are equal, kDifferent when not.
constexpr int kDifferent = 1;
int diff(const VerbCall& call);

// Read every byte of a checkpoint, or of all of a run's, and compare it with the hash
// that was recorded. kDone when all is sound, else kCheckpoint.
int verify(const VerbCall& call);

// A page in HTML of what a run has told so far. Throws Error(kUsage) where there is no
// run, Error(kCheckpoint) where the page cannot be written.
int report(const VerbCall& call);

// What this machine offers and measures, each finding with its cure. kDone when nothing
// is bad, else kEnvironment. Under an mpirun or srun of the user's its ranks are tried.
int doctor(const VerbCall& call);

// What ranks that the doctor starts do: find each other. No verb for people.
int hello(const VerbCall& call);

// The exactness that is promised, tried on this machine with the user's settings made
// small; a report to send. kDone when all is kept, else kTraining.
int selftest(const VerbCall& call);

// A checkpoint's model as a folder that transformers loads.
int export_folder(const VerbCall& call);

// Time one thing beside its limit; print a table, or with --json an array of rows. adam
// and checkpoint are about one process: of several ranks the first measures, the others
// leave.
int bench(const VerbCall& call);

}  // namespace zero::launcher
