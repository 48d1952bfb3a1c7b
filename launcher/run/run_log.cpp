#include "launcher/run_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/processes.h"
#include "launcher/run/metrics.h"
#include "launcher/run/metrics_history.h"
#include "launcher/run/run_record.h"
#include "launcher/run/step_meter.h"
#include "zero/engine.h"
#include "zero/ranks.h"

namespace zero {
namespace {

launcher::Settings settings_of_log(const std::string& folder, const Engine& engine) {
  return {.dtype = name_of(engine.options().dtype), .out = folder};
}

}  // namespace

struct RunLog::Impl {
  Impl(const std::string& folder, Engine& of, const std::vector<std::string>& hosts)
      : engine(of), metrics(settings_of_log(folder, of), of.num_steps()), meter(of) {
    metrics.note("run", launcher::run_record(of, hosts));
    if (of.num_steps() > 0) metrics.note("resume", {{"step", of.num_steps()}});
  }
  // The meter of what was done until now; what is to come gets a new one.
  launcher::StepMeter lap() { return std::exchange(meter, launcher::StepMeter(engine)); }

  Engine& engine;
  launcher::Metrics metrics;
  launcher::StepMeter meter;
};

RunLog::RunLog(const std::string& folder, Engine& engine) {
  const std::vector<std::string> hosts = engine.control().gather(host_name());
  if (engine.rank() != 0) return;
  std::error_code ignored;  // the first record tells
  std::filesystem::create_directories(folder, ignored);
  const int64_t step = engine.num_steps();
  launcher::cut_metrics(folder, step == 0 ? -1 : step, step);
  impl_ = std::make_unique<Impl>(folder, engine, hosts);
}

RunLog::~RunLog() = default;

void RunLog::step(const StepReport& report) {
  if (impl_) impl_->metrics.step(impl_->lap().record(report));
}

void RunLog::eval(double loss, int64_t num_targets) {
  if (!impl_) return;
  impl_->metrics.eval(
      {impl_->engine.num_steps(), loss, num_targets, impl_->lap().seconds()});
}

void RunLog::end() {
  if (impl_) impl_->metrics.note("end", {{"step", impl_->engine.num_steps()}});
}

}  // namespace zero
