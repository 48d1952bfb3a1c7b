// {"config": ..., "position": ...}, as a manifest has them: what a checkpoint tells of its
// run.
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/json.h"
#include "launcher/run/saved_run.h"
#include "tests/fuzz/target.h"
#include "zero/errors.h"

namespace zero::fuzz::position {
namespace {

using namespace launcher;

// Whatever stands there, as the reader of manifests hands it on; "null": nothing.
std::string part(const nlohmann::json& manifest, const char* key) {
  return manifest.is_object() ? manifest.value(key, nlohmann::json()).dump() : "null";
}

void claim_run(const std::string& config) {
  const SavedRun run = parse_saved_run(config, "here");
  const SavedRun again = parse_saved_run(to_text(run), "here");
  claim(again.settings == run.settings && again.data == run.data &&
            again.vocab == run.vocab && again.is_text == run.is_text,
        "a run that was read can be written and read again");
  claim(differences(run, again).empty(), "a run is the same as itself");
  claim(run.vocab >= 0 && run.data.num_tokens >= 0, "counts are not negative");
}

void claim_progress(const std::string& position) {
  const Progress progress = parse_progress(position, "here");
  claim(parse_progress(to_text(progress), "here") == progress,
        "a position that was read can be written and read again");
}

template <class Claim>
void claim_or_refused(Claim claim_part, const std::string& text) {
  try {
    claim_part(text);
  } catch (const Error& error) {
    claim(error.code() == ExitCode::kCheckpoint, "what a file says is its error");
  }
}

}  // namespace

void target(const std::string& text) {
  try {
    const auto manifest = checkpoint::parse_strictly(text, "manifest.json");
    claim_or_refused(claim_run, part(manifest, "config"));
    claim_or_refused(claim_progress, part(manifest, "position"));
  } catch (const checkpoint::CheckpointError&) {
  }
}

}  // namespace zero::fuzz::position
