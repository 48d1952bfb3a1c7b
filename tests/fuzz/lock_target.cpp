// A run.lock that somebody has left.
#include <unistd.h>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/run_lock.h"
#include "tests/fuzz/target.h"
#include "tests/launcher/settings/configs.h"

namespace zero::fuzz::lock {
namespace {

using namespace checkpoint;

const launcher::TempFolder& run_folder() {
  static const launcher::TempFolder folder;
  return folder;
}

void claim_nothing_else_is_left() {
  const auto names = Folder(run_folder().path("")).names();
  claim(names == std::vector<std::string>{"run.lock"}, "nothing but the lock is left");
}

void claim_writes_itself(const std::string& text) {
  const auto holder = parse_holder(text);
  if (!holder) return;
  const auto again = parse_holder(to_text(*holder));
  claim(again && to_text(*again) == to_text(*holder), "a holder can be written and read");
}

// False: it was refused, and nothing is changed.
bool takes_over(const std::string& text, TakeOver take_over) {
  run_folder().write("run.lock", text);
  try {
    RunLock lock(run_folder().path(""), "job 7", take_over);
    lock.beat();
    const auto holder = parse_holder(run_folder().read("run.lock"));
    claim(holder && holder->pid == ::getpid(), "the lock names its holder");
    claim_nothing_else_is_left();
    return true;
  } catch (const CheckpointError&) {
    claim(run_folder().read("run.lock") == text, "a lock that was refused stays");
    claim_nothing_else_is_left();
    return false;
  }
}

}  // namespace

void target(const std::string& text) {
  claim_writes_itself(text);
  const bool from_the_dead = takes_over(text, TakeOver::kFromTheDead);
  const bool always = takes_over(text, TakeOver::kAlways);
  claim(always || !from_the_dead, "--take-over takes what may be taken");
  claim(parse_holder(text) || !from_the_dead, "a damaged lock is not taken");
  claim(parse_holder(text) || always, "--take-over takes a damaged lock");
}

}  // namespace zero::fuzz::lock
