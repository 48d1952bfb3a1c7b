#include "launcher/run/banner.h"

#include <fmt/format.h>

#include "launcher/run/step_line.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

std::string model_text(const Settings& settings, const BannerFacts& facts) {
  const ModelShape& shape = facts.shape;
  return fmt::format(
      "{}: {} layers, dim {}, {} heads, vocabulary {}; {} parameters in {} units, {}",
      settings.model, shape.layers, shape.dim, shape.heads, shape.vocab,
      with_commas(facts.num_parameters), facts.num_units, settings.dtype);
}

std::string data_text(const BannerFacts& facts) {
  return fmt::format("{}; {} samples of {} tokens = {:.1f} steps make an epoch",
                     facts.data, with_commas(facts.samples_per_epoch),
                     facts.shape.seq_len,
                     static_cast<double>(facts.samples_per_epoch) /
                         static_cast<double>(facts.batch.global_batch));
}

std::string batch_text(const BannerFacts& facts) {
  const BatchPlan& batch = facts.batch;
  return fmt::format("{} samples a step = {} ranks x {} passes x {} samples; {} tokens",
                     batch.global_batch, batch.ranks, num_passes(batch),
                     batch.micro_batch,
                     with_commas(batch.global_batch * facts.shape.seq_len));
}

std::string saves_text(const Settings& settings) {
  const auto [steps, seconds] = settings.save_every;
  if (seconds > 0) {
    return fmt::format(
        "every {} (less often if they take over 5% of the time) and at the end; that is "
        "what a crash can cost",
        format_span(seconds));
  }
  if (steps > 0)
    return fmt::format("every {} steps, and at the end; a crash costs up to {} steps",
                       steps, steps);
  return "at the end alone; a crash costs the whole run (--save-every 10min)";
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

}  // namespace

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

std::string describe_threads(const ThreadChoice& choice) {
  std::string rates;
  for (const ThreadRate& rate : choice.rates) {
    rates += fmt::format("{}{}: {:.1f} GB/s", rates.empty() ? "" : ", ", rate.threads,
                         rate.bytes_per_second / 1e9);
  }
  return std::to_string(choice.threads) + (rates.empty() ? "" : " (" + rates + ")");
}

std::string banner(const Settings& settings, const BannerFacts& facts) {
  return "zero_launch train\n" +
         labelled("ranks", fmt::format("{} with {} thread(s) each; {}", facts.batch.ranks,
                                       facts.threads, describe_cores(facts.cores))) +
         labelled("", "adam threads " + describe_threads(facts.adam_threads)) +
         labelled("model", model_text(settings, facts)) +
         labelled("data", data_text(facts)) + labelled("batch", batch_text(facts)) +
         memory_lines(facts) + labelled("output", settings.out + "/metrics.jsonl") +
         labelled("saves", saves_text(settings)) +
         labelled("stop", facts.stop_command + " saves and stops");
}

}  // namespace zero::launcher
