#include "launcher/run/run_folder.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "base/processes.h"
#include "checkpoint/commit.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"
#include "checkpoint/tidy.h"
#include "launcher/process/process.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;

// Names that stay the same when the scheduler starts a job again: mpirun's own are none.
constexpr std::array kJobVariables = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};

constexpr char kStopFile[] = "STOP";

constexpr int kLooks = 10;  // a network file system may show a new file late
constexpr auto kPause = 200ms;

// In a file of that name.
void find_word(const std::string& folder, const std::string& word) {
  for (int look = 0; look < kLooks; ++look) {
    try {
      if (checkpoint::read_text(checkpoint::Folder(folder), word, 256) == word) return;
    } catch (const checkpoint::CheckpointError&) {  // not there yet
    }
    std::this_thread::sleep_for(kPause);
  }
  throw Error(ExitCode::kCheckpoint,
              fmt::format("host {} does not see what rank 0 writes into the run's folder",
                          host_name()),
              folder, "--out in a folder that all hosts share");
}

}  // namespace

void create_folder(const std::string& path, const std::string& flag) try {
  checkpoint::make_run_folder(path);
  const checkpoint::Folder is_there(path);
} catch (const checkpoint::CheckpointError& error) {
  const std::string& problem = error.problem();  // "cannot ...: No such file"
  throw Error(ExitCode::kCheckpoint,
              "cannot create the run's folder" + problem.substr(problem.find(": ")), path,
              fmt::format("another {} DIR", flag));
}

Heartbeat::Heartbeat(const std::string& folder, const std::string& job_id,
                     checkpoint::TakeOver take_over, double seconds_between)
    : lock_(folder, job_id, take_over),
      seconds_between_(seconds_between),
      thread_([this](std::stop_token stop) { beat_until_stopped(stop); }) {}

void Heartbeat::check() {
  const std::lock_guard guard(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  lock_.check();
}

void Heartbeat::beat_until_stopped(std::stop_token stop) {
  std::unique_lock guard(mutex_);
  const std::chrono::duration<double> pause(seconds_between_);
  while (!failure_) {
    wake_.wait_for(guard, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    try {
      lock_.beat();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

std::string job_id(const std::vector<std::string>& environment) {
  for (const std::string name : kJobVariables) {
    if (const auto id = variable(environment, name)) return *id;
  }
  return "";
}

RunFolder::RunFolder(const std::string& path, const std::string& job_id,
                     checkpoint::TakeOver take_over, Ranks& ranks) {
  if (ranks.rank() == 0) {
    create_folder(path, "--out");
    lock_ = std::make_unique<Heartbeat>(path, job_id, take_over);
    checkpoint::tidy(lock_->run());
    checkpoint::probe_writable(lock_->run());
  }
  check_shared(path, path, ranks);
}

std::vector<std::string> RunFolder::set_aside_behind(int64_t step) const {
  std::vector<std::string> names;
  for (const auto& folder : checkpoint::list_steps(run().folder())) {
    if (folder.step > step) names.push_back(checkpoint::set_aside(run(), folder.step));
  }
  return names;
}

// A file that `touch` has made; a folder of that name is somebody's own.
bool RunFolder::has_stop_file() const { return run().folder().has_file(kStopFile); }

void RunFolder::remove_stop_file() const {
  if (has_stop_file()) checkpoint::discard_file(run().folder(), kStopFile, run().io());
}

std::string source_folder(const std::string& folder) { return folder + "/source"; }

std::string stop_file(const std::string& folder) { return folder + "/" + kStopFile; }

void check_shared(const std::string& folder, const std::string& seen_as, Ranks& ranks) {
  if (ranks.size() == 1) return;
  const bool is_first = ranks.rank() == 0;
  // A name that was never seen before: no stale cache knows it.
  const std::string word =
      ranks.broadcast(is_first ? checkpoint::temporary_name("nonce") : std::string());
  if (is_first)
    checkpoint::write_text(checkpoint::Folder(folder), word, word,
                           checkpoint::system_io());
  ranks.barrier("nonce written");
  find_word(seen_as, word);
  ranks.barrier("nonce read");
  if (is_first) checkpoint::remove_file(checkpoint::Folder(folder), word);
}

}  // namespace zero::launcher
