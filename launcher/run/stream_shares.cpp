#include "launcher/run/stream_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/processes.h"
#include "offload/affinity.h"

namespace zero::launcher {
namespace {

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

constexpr char kOthersCure[] =
    "end what else runs on this machine, or leave it cores: fewer --threads or --ranks";

// In the order of Bound.
struct Told {
  std::string on_gpu, on_cpu, cure;
};
const Told kTold[] = {
    {"compute", "compute", ""},
    {"weights on their way to the GPU", "gathering weights",
     "a larger --micro-batch or --accumulate unit gathers them less often, "
     "--prefetch 2 sooner"},
    {"gradients on their way from the GPU", "reducing gradients",
     "a larger --micro-batch or --accumulate unit reduces them less often, "
     "--reduce-dtype bf16 makes them smaller"},
    {"the optimizer", "the optimizer",
     "a larger --global-batch updates less often, --grad-dtype bf16 and "
     "--state-dtype bf16 read less"},
    {"saves", "saves", "a longer --save-every, or a faster disk below --out"},
    {"what is beside the model, as reading data",
     "what is beside the model, as reading data", ""},
    {"cores that are taken", "cores that are taken", kOthersCure}};

std::string without_core(double share) {
  return fmt::format("threads without a core {}", percent(share));
}

}  // namespace

Shares shares_of(const StreamSeconds& busy, double seconds) {
  if (!(seconds > 0)) return {};
  return {busy.compute / seconds,   busy.waiting / seconds,   busy.weights / seconds,
          busy.gradients / seconds, busy.optimizer / seconds, busy.saves / seconds};
}

void MeanShares::add(const Shares& shares, double seconds) {
  sum_.compute += shares.compute * seconds;
  sum_.waiting += shares.waiting * seconds;
  sum_.weights += shares.weights * seconds;
  sum_.gradients += shares.gradients * seconds;
  sum_.optimizer += shares.optimizer * seconds;
  sum_.saves += shares.saves * seconds;
  seconds_ += seconds;
}

Bound bound_by(const Shares& shares) {
  if (shares.without_core > 0.125) return Bound::kCores;
  if (shares.compute + shares.waiting < 0.5) return Bound::kData;
  const double longest =
      std::max({shares.weights, shares.gradients, shares.optimizer, shares.saves});
  const bool explains_waits = shares.waiting > 0.2 && longest > shares.waiting;
  if (shares.compute >= longest && !explains_waits) return Bound::kCompute;
  if (shares.saves == longest) return Bound::kSaves;
  if (shares.weights == longest) return Bound::kWeights;
  return shares.gradients == longest ? Bound::kGradients : Bound::kOptimizer;
}

std::string to_text(const Shares& shares, bool on_gpu) {
  std::string text;
  const auto add = [&](const char* name, double share) {
    if (share < 0.005) return;
    text += (text.empty() ? "" : " ") + fmt::format("{} {}", name, percent(share));
  };
  add(on_gpu ? "gpu" : "cpu", shares.compute);
  add(on_gpu ? "h2d" : "gather", shares.weights);
  add(on_gpu ? "d2h" : "reduce", shares.gradients);
  add("adam", shares.optimizer);
  add("save", shares.saves);
  return text;
}

std::string bound_sentence(const Shares& shares, bool on_gpu) {
  const auto& [on_gpu_name, on_cpu_name, cure] =
      kTold[static_cast<size_t>(bound_by(shares))];
  const bool lacks_cores = bound_by(shares) == Bound::kCores;
  return fmt::format("bound by: {} ({}, waiting {}{}){}",
                     on_gpu ? on_gpu_name : on_cpu_name, to_text(shares, on_gpu),
                     percent(shares.waiting),
                     lacks_cores ? ", " + without_core(shares.without_core) : "",
                     cure.empty() ? "" : "; " + cure);
}

// Threads that have ended took their seconds with them.
double share_of_cores(double without_core, double seconds, double cores) {
  if (!(seconds > 0 && cores > 0)) return 0;
  return std::max(0.0, without_core) / seconds / cores;
}

CoreWatch::CoreWatch() : begin_(now()), last_(begin_) {}

CoreWatch::Point CoreWatch::now() {
  return {std::chrono::steady_clock::now(), seconds_without_core()};
}

double CoreWatch::share_between(const Point& from, const Point& to) {
  return share_of_cores(to.without_core - from.without_core,
                        std::chrono::duration<double>(to.time - from.time).count(),
                        static_cast<double>(current_affinity().size()));
}

std::optional<std::string> CoreWatch::look() {
  constexpr auto kBetweenLooks = std::chrono::seconds(10);
  if (has_warned_ || std::chrono::steady_clock::now() - last_.time < kBetweenLooks)
    return std::nullopt;
  const Point before = std::exchange(last_, now());
  has_warned_ = share_between(before, last_) > 0.25;
  if (!has_warned_) return std::nullopt;
  return fmt::format(
      "too few cores are free: in {:.0f} s threads waited {:.0f} s for one; {}",
      std::chrono::duration<double>(last_.time - before.time).count(),
      last_.without_core - before.without_core, kOthersCure);
}

double CoreWatch::share() const { return share_between(begin_, now()); }

}  // namespace zero::launcher
