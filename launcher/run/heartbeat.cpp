#include "launcher/run/heartbeat.h"

#include <array>
#include <chrono>

#include "launcher/process/environment.h"

namespace zero::launcher {
namespace {

// Names that stay the same when the scheduler starts a job again: mpirun's own are none.
constexpr std::array kJobVariables = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};

}  // namespace

Heartbeat::Heartbeat(const std::string& folder, const std::string& job_id,
                     checkpoint::TakeOver take_over, double seconds_between)
    : lock_(folder, job_id, take_over),
      seconds_between_(seconds_between),
      thread_([this](std::stop_token stop) { beat_until_stopped(stop); }) {}

Heartbeat::~Heartbeat() = default;

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

}  // namespace zero::launcher
