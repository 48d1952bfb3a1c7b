#include "launcher/plan/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/run/lines.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::string model_text(const RunPlan& plan) {
  return fmt::format("{}: {} parameters", shape_text(plan.shape),
                     fmt::group_digits(plan.num_parameters));
}

std::string row(const std::string& tier, const std::string& owner,
                const std::string& of_rank, const std::string& of_node) {
  return fmt::format("  {:<8} {:<22} {:>11}  {:>11}\n", tier, owner, of_rank, of_node);
}

// The second sum is that of the fullest node.
std::string row(const RunPlan& plan, const std::string& tier, const std::string& owner,
                int64_t bytes) {
  return row(tier, owner, short_bytes(bytes), short_bytes(plan.of_node(bytes)));
}

std::string table(const RunPlan& plan) {
  std::string text = row("tier", "owner", "per rank", "per node");
  for (const MemoryEntry& entry : plan.engine)
    text += row(plan, entry.tier, entry.owner, entry.bytes);
  text += row(plan, "", "engine, exactly", plan.engine_bytes());
  if (plan.activations < 0)
    text +=
        "  device   activations                 unknown: this model has no estimate\n";
  else
    text += row(plan, "device", "activations, about", plan.activations);
  if (plan.offloaded > 0)
    text += row(plan, "host", "offloaded inputs, about", plan.offloaded);
  if (plan.kernels > 0) text += row(plan, "host", "kernels, at most", plan.kernels);
  if (plan.objects > 0) text += row(plan, "host", "small objects, about", plan.objects);
  if (plan.program.rank > 0)
    text += row(plan, "host", "program, measured", plan.program.rank);
  if (plan.program.starter > 0)
    text += row("host", "starter of the ranks", "", short_bytes(plan.program.starter));
  if (plan.on_gpu) text += row(plan, "device", "CUDA itself, about", kCudaBytes);
  text += row(plan.on_gpu ? "host" : "", "all",
              short_bytes(plan.rank_bytes() - plan.gpu_bytes()),
              short_bytes(plan.node_bytes()));
  return plan.on_gpu ? text + row(plan, "device", "all", plan.gpu_bytes()) : text;
}

// What activations would be with the loss made the other way.
std::string loss_line(const RunPlan& plan) {
  const int64_t chunk = plan.shape.loss_chunk, other = plan.other_activations;
  if (other < 0 || (chunk == 0 && other >= plan.activations)) return "";
  const std::string ways = chunk == 0 ? fmt::format("whole; --loss-chunk {}", kLossChunk)
                                      : fmt::format("chunks of {} tokens; whole", chunk);
  return labelled("loss", ways + ": " + short_bytes(other) + " of activations");
}

// What a tied pair costs: the engine keeps the part around all units gathered, and the
// pair belongs there.
std::string tied_line(const RunPlan& plan) {
  if (plan.shape.config.value("tie_word_embeddings", nlohmann::json()) != true ||
      !plan.shape.has("embed"))
    return "";
  const auto root = std::ranges::find(plan.engine, "root weights", &MemoryEntry::owner);
  if (root == plan.engine.end()) return "";
  return labelled("tied", "embedding and head are one: " + short_bytes(root->bytes) +
                              " of each rank stay gathered from forward to the end of "
                              "backward");
}

// In the order in which they are asked.
std::string group_lines(const RunPlan& plan) {
  std::string text;
  for (const auto& [words, share] : plan.groups) {
    text += labelled(text.empty() ? "groups" : "",
                     fmt::format("{}: {} parameter(s), {} values", words,
                                 fmt::group_digits(share.num_parameters),
                                 fmt::group_digits(share.numel)));
  }
  return text;
}

json groups_json(const RunPlan& plan) {
  json groups = json::array();
  for (const auto& [words, share] : plan.groups) {
    groups.push_back(
        {{"group", words}, {"parameters", share.num_parameters}, {"numel", share.numel}});
  }
  return groups;
}

// What one rank's weights and gradients are on the way for.
std::string traffic_line(const RunPlan& plan) {
  std::string text;
  const auto add = [&](int64_t bytes, const char* what) {
    if (bytes > 0) text += (text.empty() ? "" : ", ") + short_bytes(bytes) + what;
  };
  add(plan.step.to_device, " to the GPU");
  add(plan.step.from_device, " from it");
  add(plan.step.gathered, " gathered from other ranks");
  add(plan.step.reduced, " reduced with them");
  add(plan.step.across, " of both between hosts");
  return text.empty() ? "" : labelled("a step", text + ", per rank");
}

std::string bytes_text(const RunPlan& plan) {
  std::string text = short_bytes(plan.node_bytes());
  if (plan.on_gpu) text += ", " + short_bytes(plan.gpu_bytes()) + " of a GPU";
  return text;
}

std::string verdict(const PlanAnswer& answer) {
  const Settings& settings = answer.wish.settings;
  std::string numbers =
      fmt::format("{} needed, {} {}", short_bytes(answer.plan.node_bytes()),
                  short_bytes(answer.wish.room),
                  settings.host_memory > 0 ? "(--host-memory)" : "free on this host");
  if (answer.plan.on_gpu) {
    numbers += fmt::format(
        "; {} of a GPU by each rank, {} {}", short_bytes(answer.plan.gpu_bytes()),
        short_bytes(answer.wish.gpu_room),
        settings.device_memory > 0 ? "(--device-memory)" : "free there");
  }
  const bool is_guess = answer.plan.activations < 0;
  if (answer.all_fits())
    return (is_guess ? "fits, activations apart: " : "fits: ") + numbers;
  if (answer.engine_fits())
    return "does not fit, as far as activations can be told: " + numbers;
  return "does not fit: " + numbers;
}

std::string device_text(const PlanAnswer& answer) {
  const RunPlan& plan = answer.plan;
  if (!plan.on_gpu) return "CPU";
  if (answer.wish.settings.share_gpu) return "a GPU, which ranks may share";
  return "a GPU for each rank, " + describe_offload(plan);
}

json shape_json(const RunPlan& plan) {
  const ModelShape& shape = plan.shape;
  return {{"layers", shape.layers()},   {"dim", shape.dim()},
          {"heads", shape.heads()},     {"kv_heads", shape.kv_heads()},
          {"ffn_dim", shape.ffn_dim()}, {"vocab", shape.vocab()},
          {"seq_len", shape.seq_len},   {"parameters", plan.num_parameters},
          {"config", shape.config}};
}

json fit_json(const Fit& fit) {
  json changes = json::object();
  for (const ChangedSetting& change : fit.changes) {
    changes[change.key] = find_setting(change.key)->value(fit.wish.settings);
  }
  return {{"changes", changes},
          {"nodes", fit.num_nodes},
          {"ranks_per_node", fit.plan.ranks_on_node},
          {"bytes_per_node", fit.plan.node_bytes()},
          {"gpu_bytes_per_rank", fit.plan.gpu_bytes()}};
}

}  // namespace

std::string to_page(const PlanAnswer& answer) {
  const RunPlan& plan = answer.plan;
  std::string text = "zero_launch plan\n";
  text += labelled("model", answer.family + ": " + model_text(plan) + ", " +
                                answer.wish.settings.dtype);
  text += labelled("ranks", fmt::format("{}, {} of them on a node", plan.num_ranks,
                                        plan.ranks_on_node));
  text += labelled("batch",
                   fmt::format("{} samples, {} a pass", answer.wish.settings.global_batch,
                               answer.wish.settings.micro_batch));
  text += labelled("device", device_text(answer));
  if (plan.settings.prefetch == "0")
    text += labelled("prefetch", "0: units are gathered when they are needed");
  text += table(plan);
  text += tied_line(plan);
  text += loss_line(plan);
  text += traffic_line(plan);
  text += group_lines(plan);
  text += labelled("verdict", verdict(answer));
  if (!answer.all_fits()) {
    text +=
        labelled("nearest",
                 answer.nearest
                     ? fmt::format("{}: {}", to_text(*answer.nearest),
                                   bytes_text(answer.nearest->plan))
                     : "nothing, on up to 1024 such nodes that share this global_batch");
  }
  return text + labelled("largest", answer.largest
                                        ? "of this shape: " + model_text(*answer.largest)
                                        : "no model of this shape fits");
}

json to_json(const PlanAnswer& answer) {
  const RunPlan& plan = answer.plan;
  const Settings& settings = plan.settings;
  const bool is_known = plan.activations >= 0;
  const json other_loss = {{"loss_chunk", other_loss_chunk(plan.shape.loss_chunk)},
                           {"activation_bytes_per_rank", plan.other_activations}};
  return {
      {"model", shape_json(plan)},
      {"groups", groups_json(plan)},
      {"ranks", plan.num_ranks},
      {"ranks_per_node", plan.ranks_on_node},
      {"engine", to_json(plan.engine)},
      {"engine_bytes_per_rank", plan.engine_bytes()},
      {"activation_bytes_per_rank", is_known ? json(plan.activations) : json()},
      {"offloaded_bytes_per_rank", is_known ? json(plan.offloaded) : json()},
      {"other_loss", is_known ? other_loss : json()},
      {"kernel_bytes_per_rank", plan.kernels},
      {"object_bytes_per_rank", plan.objects},
      {"program_bytes_per_rank", plan.program.rank},
      {"starter_bytes", plan.program.starter},
      {"step_bytes_per_rank",
       {{"h2d", plan.step.to_device},
        {"d2h", plan.step.from_device},
        {"gathered", plan.step.gathered},
        {"reduced", plan.step.reduced},
        {"across_hosts", plan.step.across}}},
      {"bytes_per_rank", plan.rank_bytes()},
      {"bytes_per_node", plan.node_bytes()},
      {"bytes_available", answer.wish.room},
      {"device", plan.on_gpu ? "gpu" : "cpu"},
      {"offload", settings.offload},
      {"device_state_fraction",
       parse_fraction(settings.device_state_fraction).value_or(0)},
      {"accumulate", settings.accumulate},
      {"grad_sums", settings.grad_sums},
      {"prefetch", parse_prefetch(settings.prefetch).value_or(1)},
      {"speculate_bytes_per_rank", plan.draft_bytes()},
      {"gpu_bytes_per_rank", plan.gpu_bytes()},
      {"gpu_bytes_available", answer.wish.gpu_room},
      {"engine_fits", answer.engine_fits()},
      {"fits", answer.all_fits()},
      {"nearest", answer.nearest ? fit_json(*answer.nearest) : json()},
      {"largest", answer.largest ? shape_json(*answer.largest) : json()},
  };
}

}  // namespace zero::launcher
