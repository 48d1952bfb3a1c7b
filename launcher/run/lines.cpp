#include "launcher/run/lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "launcher/settings/chosen_model.h"
#include "launcher/settings/lora_setting.h"
#include "launcher/settings/values.h"
#include "zero/mesh.h"

namespace zero::launcher {
namespace {

// "rank 0: cores 0 (was pinned to 0), rank 1: ..." with the same text said once for many
// ranks.
std::string describe_cores(const std::vector<std::string>& cores) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < cores.size(); begin = end) {
    for (end = begin + 1; end < cores.size() && cores[end] == cores[begin];) ++end;
    const std::string ranks = end - begin == 1
                                  ? fmt::format("rank {}", begin)
                                  : fmt::format("ranks {}-{}", begin, end - 1);
    text += fmt::format("{}{}: cores {}", text.empty() ? "" : ", ", ranks, cores[begin]);
  }
  return text;
}

// "a (4 ranks), b"
std::string describe_hosts(const std::vector<std::string>& hosts) {
  std::map<std::string, int> ranks;
  for (const std::string& host : hosts) ++ranks[host];
  std::vector<std::string> parts;
  for (const auto& [host, count] : ranks)
    parts.push_back(count == 1 ? host : fmt::format("{} ({} ranks)", host, count));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string model_text(const Settings& settings, const BannerFacts& facts) {
  std::string text = fmt::format(
      "{}: {}; {} parameters in {} units, {}", facts.family, shape_text(facts.shape),
      fmt::group_digits(facts.num_parameters), facts.num_units, settings.dtype);
  if (facts.num_trained < facts.num_parameters)
    text += fmt::format(", {} of them trained", fmt::group_digits(facts.num_trained)) +
            (settings.frozen_dtype != "auto" && settings.frozen_dtype != "fp32"
                 ? ", others held in " + settings.frozen_dtype + " alone"
                 : "");
  if (const nlohmann::json* lora = facts.shape.lora())
    text += ": " + describe(lora_from_json(*lora, "--lora"));
  return text;
}

std::string frozen_lines(const BannerFacts& facts) {
  std::string lines;
  for (const std::string& line : facts.frozen_for_now)
    lines += labelled(lines.empty() ? "frozen" : "", line);
  return lines;
}

bool is_of_images(const ModelShape& shape) { return !shape.keys.image_size.empty(); }

std::string data_text(const Settings& settings, const BannerFacts& facts) {
  const std::string samples =
      is_of_images(facts.shape)
          ? "images"
          : fmt::format("samples of {} tokens", facts.shape.seq_len);
  std::string text = fmt::format("{}; {} {} = {:.1f} steps make an epoch", facts.data,
                                 fmt::group_digits(facts.samples_per_epoch), samples,
                                 static_cast<double>(facts.samples_per_epoch) /
                                     static_cast<double>(facts.batch.global_batch));
  if (settings.epochs > 0)
    text += fmt::format("; {} epoch{} = {} steps", settings.epochs,
                        settings.epochs == 1 ? "" : "s", settings.steps);
  return text;
}

std::string held_out_text(int64_t count, bool is_of_images) {
  const std::string number = fmt::format("{}", fmt::group_digits(count));
  return is_of_images ? number + " images"
                      : "the last " + number + " samples of the data";
}

// Nothing for settings by which nothing is evaluated.
std::string evaluation_lines(const Settings& settings, const BannerFacts& facts) {
  std::string text;
  if (facts.num_held_out > 0)
    text = fmt::format("{}, held out: never trained on",
                       held_out_text(facts.num_held_out, is_of_images(facts.shape)));
  else if (settings.eval_fraction > 0)
    text = "none: of fewer than 100 samples none are held out (--eval-data PATH...)";
  return text.empty() ? "" : labelled("eval", text);
}

std::string batch_text(const BannerFacts& facts) {
  const BatchPlan& batch = facts.batch;
  const std::string tokens =
      is_of_images(facts.shape)
          ? ""
          : fmt::format("; {} tokens",
                        fmt::group_digits(batch.global_batch * facts.shape.seq_len));
  return fmt::format("{} samples a step = {} ranks x {} passes x {} samples{}",
                     batch.global_batch, batch.ranks, num_passes(batch),
                     batch.micro_batch, tokens);
}

std::string saves_text(const Settings& settings) {
  const auto [steps, seconds] = settings.save_every;
  const std::string end = settings.save_at_end ? "and" : "not";
  if (seconds > 0) {
    return fmt::format(
        "every {} (less often if they cost over 5% of the time), {} at the end; that is "
        "what a crash can cost",
        format_span(seconds), end);
  }
  if (steps > 0)
    return fmt::format("every {} steps, {} at the end; a crash costs up to {} steps{}",
                       steps, end, steps,
                       settings.save == "async" ? " and those beside a save" : "");
  if (settings.save_at_end)
    return "at the end alone; a crash costs the whole run (--save-every 10min)";
  return settings.keep_best ? "the best evaluation, and where it is asked to stop"
                            : "only where it is asked to stop: a run that ends leaves no "
                              "model (--save-every 10min)";
}

// "1.2 GiB each, beside the steps; the last one took 3.1 s"
std::string cost_of_saves(const Settings& settings, const BannerFacts& facts) {
  std::string text = fmt::format(
      "{} each, {}", short_bytes(facts.checkpoint_bytes),
      settings.save == "sync" ? "while steps wait (--save sync)" : "beside the steps");
  if (facts.save_seconds >= 0)
    text += fmt::format("; the last one took {:.1f} s", facts.save_seconds);
  return text;
}

std::string memory_lines(const BannerFacts& facts) {
  std::string lines;
  int64_t sum = 0;
  for (const MemoryEntry& entry : facts.memory) {
    lines += labelled(lines.empty() ? "memory" : "",
                      fmt::format("{:>10}  {:<6}  {}", short_bytes(entry.bytes),
                                  entry.tier, entry.owner));
    sum += entry.bytes;
  }
  const std::string activations =
      facts.activations < 0
          ? "activations apart"
          : fmt::format("and about {} of activations", short_bytes(facts.activations));
  return lines + labelled("", fmt::format("{:>10}  rank 0 in all, {}", short_bytes(sum),
                                          activations));
}

// In the unit that leaves fewer than `step` of them, as it is rounded.
std::string in_largest_unit(double count, double step,
                            const std::array<const char*, 5>& units) {
  size_t unit = 0;
  for (; std::abs(count) >= step - 0.05 && unit + 1 < units.size(); ++unit) count /= step;
  return fmt::format("{:.{}f}{}", count, unit == 0 ? 0 : 1, units[unit]);
}

std::string device_text(const Settings& settings, const BannerFacts& facts) {
  if (!facts.gpu.empty()) return facts.gpu;
  if (settings.device == "cpu") return "CPU";
  std::vector<std::string> unused;
  if (settings.device_memory > 0) unused.push_back("device_memory");
  if (settings.share_gpu) unused.push_back("share_gpu");
  if (settings.tf32) unused.push_back("tf32");
  return "CPU: no GPU was found" +
         (unused.empty() ? ""
                         : fmt::format(", for which {} {}", fmt::join(unused, ", "),
                                       unused.size() > 1 ? "are" : "is"));
}

// "3.1230", with so many digits behind the point; of a large one four in all.
std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "nan";  // which has no sign
  return std::abs(value) < 1e6 ? fmt::format("{:.{}f}", value, digits)
                               : fmt::format("{:.4g}", value);
}

std::string skip_text(const StepRecord& r) {
  return std::isfinite(r.loss)
             ? fmt::format(" | skipped: the gradient of {} is not finite", r.first_bad)
             : " | skipped: the loss is not finite";
}

// Updates that were begun in the backward.
std::string drafts_text(const StepRecord& r) {
  if (r.num_drafts == 0) return "";
  return fmt::format(" | drafts {}/{}", r.num_drafts_taken, r.num_drafts);
}

// A part of a line, and how much it matters.
struct LinePart {
  static constexpr int kAlways = 100;
  std::string text;
  int weight = kAlways;
};

std::string joined_within(std::vector<LinePart> parts, size_t width) {
  const auto line = [&] {
    return fmt::format("{}",
                       fmt::join(parts | std::views::transform(&LinePart::text), ""));
  };
  while (line().size() > width) {
    const auto least = std::ranges::min_element(parts, {}, &LinePart::weight);
    if (least->weight == LinePart::kAlways) break;
    parts.erase(least);
  }
  return line();
}

}  // namespace

std::string describe_threads(const ThreadChoice& choice) {
  std::string rates;
  for (const ThreadRate& rate : choice.rates) {
    rates += fmt::format("{}{}: {:.1f} GB/s", rates.empty() ? "" : ", ", rate.threads,
                         rate.bytes_per_second / 1e9);
  }
  return std::to_string(choice.threads) + (rates.empty() ? "" : " (" + rates + ")");
}

// Nothing where all ranks are one group.
std::string groups_line(const BatchPlan& batch) {
  const Mesh mesh(batch.ranks, batch.group);
  return mesh.num_groups() == 1
             ? ""
             : labelled("groups", fmt::format("{} of {} ranks each, which gather weights "
                                              "from each other",
                                              mesh.num_groups(), mesh.group));
}

std::string banner(const Settings& settings, const BannerFacts& facts) {
  return "zero_launch train\n" +
         labelled("ranks", fmt::format("{} with {} thread(s) each; {}", facts.batch.ranks,
                                       facts.threads, describe_cores(facts.cores))) +
         labelled("", "adam threads " + describe_threads(facts.adam_threads)) +
         groups_line(facts.batch) + labelled("hosts", describe_hosts(facts.hosts)) +
         labelled("device", device_text(settings, facts)) +
         labelled("model", model_text(settings, facts)) + frozen_lines(facts) +
         labelled("data", data_text(settings, facts)) +
         evaluation_lines(settings, facts) + labelled("batch", batch_text(facts)) +
         memory_lines(facts) + labelled("output", settings.out + "/metrics.jsonl") +
         labelled("saves", saves_text(settings)) +
         labelled("", cost_of_saves(settings, facts)) +
         labelled("stop", facts.stop_command + " saves and stops");
}

std::string step_line(const StepRecord& r, int64_t num_steps, double eta_seconds,
                      size_t width, const std::string& unit) {
  const int digits = static_cast<int>(fmt::formatted_size("{}", num_steps)) + 1;
  const double targets_per_second =
      r.seconds > 0 ? static_cast<double>(r.num_targets) / r.seconds : 0;
  const std::string shares = to_text(r.shares, r.uses_gpu),
                    peak = r.host_bytes_peak > 0 ? short_bytes(r.host_bytes_peak) : "";
  return joined_within(
      {{fmt::format("step {:>{}}/{} | loss {}", r.step, digits, num_steps,
                    number_text(r.loss, 4))},
       {" | norm " + number_text(r.grad_norm, 2), 3},
       {fmt::format(" | lr {:.1e}", r.lr), 4},
       {fmt::format(" | {:.0f} ms", r.seconds * 1e3), 5},
       {shares.empty() ? "" : " (" + shares + ")", 1},
       {fmt::format(" | {} {}/s", short_count(targets_per_second), unit), 6},
       {peak.empty() ? "" : " | peak " + peak, 2},
       {drafts_text(r), 2},
       {" | eta " + short_duration(eta_seconds), 7},
       {r.loss_scale > 0 ? fmt::format(" | scale {}", r.loss_scale) : ""},
       {r.skipped ? skip_text(r) : ""}},
      width);
}

std::string shape_text(const ModelShape& shape) {
  if (is_of_images(shape))
    return fmt::format("{} blocks, {} classes, images of {} x {}", shape.layers(),
                       shape.vocab(), shape.image_size(), shape.image_size());
  const std::string parts = parts_text(shape);
  return fmt::format("{} layers, dim {}, {} heads, vocabulary {}{}", shape.layers(),
                     shape.dim(), shape.heads(), shape.vocab(),
                     parts.empty() ? "" : "; of that " + parts);
}

std::string evaluation_text(double loss, const std::optional<double>& accuracy, Task task,
                            int digits) {
  std::string text = "loss " + number_text(loss, digits);
  if (task == Task::kLanguage)
    text += " | ppl " + number_text(std::exp(loss), digits - 2);
  if (accuracy) text += fmt::format(" | accuracy {:.2f} %", 100 * *accuracy);
  return text;
}

std::string labelled(const std::string& label, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", label, kTextColumn - 2, text);
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::ordered_json to_json(const std::vector<MemoryEntry>& memory) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [owner, tier, bytes] : memory)
    list.push_back({{"owner", owner}, {"tier", tier}, {"bytes", bytes}});
  return list;
}

std::string short_count(double count) {
  constexpr std::array kUnits = {"", "k", "M", "G", "T"};
  return in_largest_unit(count, 1000, kUnits);
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 3.6e9) return "?";
  auto total = std::llround(seconds);
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3570) return fmt::format("{}m", (total + 30) / 60);
  total = std::max(total, 3600LL);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  return fmt::format("{}d{:02}h", total / 86400, total / 3600 % 24);
}

std::string short_bytes(int64_t bytes) {
  constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  return in_largest_unit(static_cast<double>(bytes), 1024, kUnits);
}

std::string no_folder(const std::string& flag, const std::string& path) {
  std::error_code error;
  return flag + (std::filesystem::exists(path, error)
                     ? " names a file, not a folder"
                     : " names a folder that does not exist");
}

}  // namespace zero::launcher
