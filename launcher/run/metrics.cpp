#include "launcher/run/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

int64_t size_of(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 ? status.st_size : -1;
}

// O_NONBLOCK: a pipe must not keep a run waiting for its reader.
int open_file(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  struct stat status;
  if (descriptor < 0 || (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)))
    return descriptor;
  close(descriptor);
  errno = EINVAL;
  return -1;
}

// Half a line would make the file unreadable.
void take_back(int descriptor, int64_t size_before, bool has_written) {
  if (!has_written || size_before < 0) return;
  [[maybe_unused]] const int ignored = ftruncate(descriptor, size_before);
}

// The order of the keys is that of the code: a person reads these lines too.
using Json = nlohmann::ordered_json;

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count() * 1e-3;
}

std::string dump(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const StepRecord& r) {
  const double rate = r.seconds > 0 ? 1 / r.seconds : 0;
  Json json = {{"type", "step"},
               {"step", r.step},
               {"loss", r.loss},
               {"ppl", std::exp(r.loss)},
               {"grad_norm", r.grad_norm},
               {"clip_coef", r.clip_coef},
               {"lr", r.lr},
               {"tokens", r.num_targets},
               {"seconds", r.seconds},
               {"tokens_per_second", static_cast<double>(r.num_targets) * rate},
               {"updates_per_second", r.skipped ? 0 : rate},
               {"host_bytes_free", r.host_bytes_free},
               {"wall", wall_seconds()},
               {"bytes_h2d", r.traffic.to_device},
               {"bytes_d2h", r.traffic.from_device},
               {"bytes_gathered", r.traffic.gathered},
               {"bytes_reduced", r.traffic.reduced},
               {"share_compute", r.shares.compute},
               {"share_waiting", r.shares.waiting},
               {"share_weights", r.shares.weights},
               {"share_gradients", r.shares.gradients},
               {"share_optimizer", r.shares.optimizer}};
  if (r.loss_scale > 0) json["loss_scale"] = r.loss_scale;
  if (r.skipped) {
    json["skipped"] = true;
    json["first_bad"] = r.first_bad;
  }
  return json;
}

// The names of a step's numbers or the numbers, with commas.
std::string csv_line(const Json& step, bool names) {
  std::string line;
  for (const auto& [key, value] : step.items()) {
    if (key == "type" || key == "skipped" || key == "first_bad") continue;
    const std::string cell =
        names                                                            ? key
        : value.is_number_float() && !std::isfinite(value.get<double>()) ? "nan"
                                                                         : value.dump();
    line += (line.empty() ? "" : ",") + cell;
  }
  return line;
}

void append(AppendFile& file, const Json& record) {
  if (file.num_lost() > 0 &&
      !file.append(dump({{"type", "gap"}, {"lost", file.num_lost()}})))
    return;
  file.append(dump(record));
}

}  // namespace

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool AppendFile::append(const std::string& line) {
  if (try_append(line + '\n')) {
    num_lost_ = 0;
    return true;
  }
  ++num_lost_;
  if (!std::exchange(has_warned_, true))
    warn(
        fmt::format("cannot write {}: {}; training goes on, lines are lost until it can "
                    "be written again",
                    path_, std::strerror(errno)));
  return false;
}

bool AppendFile::is_empty() const {
  struct stat status;
  return stat(path_.c_str(), &status) != 0 || status.st_size == 0;
}

bool AppendFile::try_append(const std::string& text) {
  if (descriptor_ < 0) descriptor_ = open_file(path_);
  if (descriptor_ < 0) return false;
  const int64_t size_before = size_of(descriptor_);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor_, text.data() + done, text.size() - done);
    if (written > 0) {
      done += written;
    } else if (errno != EINTR) {
      const int error = errno;
      take_back(descriptor_, size_before, done > 0);
      errno = error;
      return false;
    }
  }
  return true;
}

Metrics::Metrics(const std::string& folder, bool with_csv)
    : jsonl_(folder + "/metrics.jsonl") {
  if (with_csv) csv_ = std::make_unique<AppendFile>(folder + "/metrics.csv");
}

void Metrics::step(const StepRecord& record) {
  const Json json = to_json(record);
  append(jsonl_, json);
  if (!csv_) return;
  if (csv_->is_empty()) csv_->append(csv_line(json, /*names=*/true));
  csv_->append(csv_line(json, /*names=*/false));
}

void Metrics::eval(const EvalRecord& r) {
  note("eval", {{"step", r.step},
                {"loss", r.loss},
                {"ppl", std::exp(r.loss)},
                {"tokens", r.tokens},
                {"seconds", r.seconds}});
}

void Metrics::note(const std::string& type, const nlohmann::ordered_json& record) {
  Json line = {{"type", type}};
  line.update(record);
  line["wall"] = wall_seconds();
  append(jsonl_, line);
}

}  // namespace zero::launcher
