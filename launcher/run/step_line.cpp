#include "launcher/run/step_line.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace zero::launcher {

std::string step_line(const StepRecord& r, int64_t num_steps, double eta_seconds) {
  const int width = static_cast<int>(fmt::formatted_size("{}", num_steps)) + 1;
  const double tokens_per_second =
      r.seconds > 0 ? static_cast<double>(r.tokens) / r.seconds : 0;
  std::string line = fmt::format(
      "step {:>{}}/{} | loss {:.4f} | norm {:.2f} | lr {:.1e} | {:.0f} ms | {} tok/s | "
      "eta {}",
      r.step, width, num_steps, r.loss, r.grad_norm, r.lr, r.seconds * 1e3,
      short_count(tokens_per_second), short_duration(eta_seconds));
  if (r.skipped) line += fmt::format(" | skipped: {} is not finite", r.first_bad);
  return line;
}

std::string labelled(const std::string& label, const std::string& text) {
  return fmt::format("  {:<9}{}\n", label, text);
}

std::string with_commas(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto i = std::ssize(digits) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), 1, ',');
  return digits;
}

std::string short_count(double count) {
  constexpr std::array kUnits = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; count >= 999.95 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return fmt::format("{:.{}f}{}", count, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 3.6e9) return "?";
  const auto total = std::llround(seconds);
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m", (total + 30) / 60);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  return fmt::format("{}d{:02}h", total / 86400, total / 3600 % 24);
}

std::string short_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double count = static_cast<double>(bytes);
  size_t unit = 0;
  for (; std::abs(count) >= 1023.95 && unit + 1 < kUnits.size(); ++unit) count /= 1024;
  return fmt::format("{:.{}f} {}", count, unit == 0 ? 0 : 1, kUnits[unit]);
}

void Eta::add_step(double seconds) {
  constexpr double kWeight = 0.1;
  mean_ = has_any_ ? mean_ + kWeight * (seconds - mean_) : seconds;
  has_any_ = true;
}

double Eta::remaining_seconds(int64_t num_steps_left) const {
  return mean_ * static_cast<double>(num_steps_left);
}

}  // namespace zero::launcher
