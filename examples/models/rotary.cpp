#include "examples/models/rotary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/json.h"
#include "examples/models/config_reader.h"

namespace zero {
namespace {

using nlohmann::json;
using Type = RotaryOptions::Type;

constexpr double kLargest = 1e12;

// base^(2i / dim) in fp32, as torch computes it from fp32: other precisions give other
// values.
at::Tensor wavelengths(const RotaryOptions& options) {
  const at::Tensor exponents =
      torch::arange(0, options.dim, 2).to(at::kFloat) / static_cast<double>(options.dim);
  return at::pow(at::Scalar(options.theta), exponents);
}

// Long waves are stretched, short ones stay, those between are blended.
at::Tensor llama3(const RotaryOptions& o, const at::Tensor& frequencies) {
  const double low = o.original_positions / o.low_freq_factor;
  const double high = o.original_positions / o.high_freq_factor;
  const at::Tensor length = 2 * M_PI / frequencies;
  const at::Tensor stretched =
      at::where(length > low, frequencies / o.factor, frequencies);
  const at::Tensor smooth = (o.original_positions / length - o.low_freq_factor) /
                            (o.high_freq_factor - o.low_freq_factor);
  const at::Tensor blended = (1 - smooth) * stretched / o.factor + smooth * stretched;
  const at::Tensor is_between = (length >= high).logical_and(length <= low);
  return at::where(is_between, blended, stretched);
}

// The pair that turns so often over the positions of the training.
double yarn_pair(const RotaryOptions& o, double num_turns) {
  return static_cast<double>(o.dim) *
         std::log(o.original_positions / (num_turns * 2 * M_PI)) /
         (2 * std::log(o.theta));
}

at::Tensor yarn(const RotaryOptions& o) {
  double low = yarn_pair(o, o.beta_fast), high = yarn_pair(o, o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(o.dim - 1));
  if (low == high) high += 0.001;
  const at::Tensor ramp =
      ((torch::arange(o.dim / 2, torch::kFloat32) - low) / (high - low)).clamp(0, 1);
  const at::Tensor lengths = wavelengths(o), kept = 1 - ramp;
  return 1 / (o.factor * lengths) * (1 - kept) + 1 / lengths * kept;
}

double yarn_scale(double factor, double mscale = 1) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

double read_attention_factor(const ConfigReader& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number("attention_factor", 0, kLargest);
  const double mscale = rope.number_or("mscale", 0, 0, kLargest);
  const double all_dim = rope.number_or("mscale_all_dim", 0, 0, kLargest);
  if (mscale != 0 && all_dim != 0)
    return yarn_scale(factor, mscale) / yarn_scale(factor, all_dim);
  return yarn_scale(factor);
}

Type read_type(const ConfigReader& rope) {
  const std::string name = rope.text("rope_type");
  if (name == "default") return Type::kDefault;
  if (name == "linear") return Type::kLinear;
  if (name == "llama3") return Type::kLlama3;
  rope.require(name == "yarn", "rope_type " + checkpoint::shown(name) + " is not here",
               "default, linear, llama3 or yarn");
  return Type::kYarn;
}

// Move a value into rope_parameters, unless it is there.
void move_in(json& config, const std::string& key, json& rope, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  if (!rope.contains(name) && !found->is_null()) rope[name] = *found;
  config.erase(found);
}

}  // namespace

void modernise_rotary(json& config, const std::string& theta_key,
                      const std::string& fraction_key) {
  json rope = json::object();
  bool is_off = false;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    if (!found->is_null() && !found->empty())
      rope = *found;
    else
      is_off = true;
    config.erase(found);
  }
  if (is_off && rope.is_object() && rope.empty()) rope["rope_type"] = "default";
  config["rope_parameters"] = rope;
  if (!rope.is_object()) return;  // read_rotary() tells
  move_in(config, theta_key, rope, "rope_theta");
  move_in(config, fraction_key, rope, "partial_rotary_factor");
  move_in(rope, "type", rope, "rope_type");
  // That of the training stays where a longer one is asked for later.
  const json type = rope.value("rope_type", json());
  const auto positions = config.find("max_position_embeddings");
  if ((type == "llama3" || type == "yarn") && positions != config.end() &&
      !rope.contains("original_max_position_embeddings"))
    rope["original_max_position_embeddings"] = *positions;
  // This one wins over what stands inside.
  if (const auto found = config.find("original_max_position_embeddings");
      found != config.end()) {
    rope["original_max_position_embeddings"] = *found;
    config.erase(found);
  }
  config["rope_parameters"] = rope;
}

void age_rotary(json& config, const std::string& theta_key,
                const std::string& fraction_key) {
  json& rope = config["rope_parameters"];
  const json type = rope.value("rope_type", json("default"));
  // Readers of scaled types want it inside.
  if ((type == "llama3" || type == "yarn") &&
      !rope.contains("original_max_position_embeddings"))
    rope["original_max_position_embeddings"] = config.at("max_position_embeddings");
  if (type == "yarn" && rope.value("factor", json()).is_null())  // as read_rotary()
    rope["factor"] = config.at("max_position_embeddings").get<double>() /
                     rope.at("original_max_position_embeddings").get<double>();
  json scaling = rope;
  const auto move_out = [&](const char* name, const std::string& key) {
    if (!key.empty() && scaling.contains(name)) config[key] = scaling[name];
    if (!key.empty()) scaling.erase(name);
  };
  move_out("rope_theta", theta_key);
  move_out("partial_rotary_factor", fraction_key);
  config["rope_scaling"] = type == "default" ? json() : scaling;
}

RotaryOptions read_rotary(const ConfigReader& config, int64_t dim) {
  const json& parameters = config.at("rope_parameters");
  config.require(parameters.is_object(), "rope_parameters are no object",
                 R"(rope_parameters: {"rope_type": "default", "rope_theta": 10000.0})");
  const ConfigReader rope(parameters, "rope_parameters");
  config.require(dim > 0 && dim % 2 == 0,
                 "rotary positions of " + std::to_string(dim) + " values of a head",
                 "an even number of them");
  RotaryOptions options;
  options.type = read_type(rope);
  options.dim = dim;
  options.theta = rope.number_or("rope_theta", options.theta, 1, kLargest);
  if (options.type == Type::kDefault) return options;
  const double positions =
      static_cast<double>(config.integer("max_position_embeddings", 1, 1 << 30));
  options.original_positions =
      rope.number_or("original_max_position_embeddings", positions, 1, kLargest);
  if (options.type == Type::kYarn && !rope.has("factor"))
    options.factor = positions / options.original_positions;
  else
    options.factor = rope.number("factor", 1e-6, kLargest);
  if (options.type == Type::kLlama3) {
    options.low_freq_factor = rope.number("low_freq_factor", 1e-6, kLargest);
    options.high_freq_factor = rope.number("high_freq_factor", 1e-6, kLargest);
    rope.require(options.low_freq_factor < options.high_freq_factor,
                 "low_freq_factor is not below high_freq_factor",
                 "as Llama 3.1: 1 and 4");
  }
  if (options.type == Type::kYarn) {
    rope.require(options.theta > 1, "yarn divides by the logarithm of rope_theta, 1",
                 "a rope_theta above 1");
    const auto beta = [&](const char* key, double otherwise) {
      const double value = rope.number_or(key, otherwise, 0, kLargest);
      return value == 0 ? otherwise : value;
    };
    options.beta_fast = beta("beta_fast", options.beta_fast);
    options.beta_slow = beta("beta_slow", options.beta_slow);
    if (rope.has("truncate")) options.truncate = rope.boolean("truncate");
    options.attention_factor = read_attention_factor(rope, options.factor);
  }
  return options;
}

at::Tensor rotary_frequencies(const RotaryOptions& options) {
  if (options.type == Type::kYarn) return yarn(options);
  const at::Tensor frequencies = 1 / wavelengths(options);
  if (options.type == Type::kLinear) return frequencies / options.factor;
  return options.type == Type::kLlama3 ? llama3(options, frequencies) : frequencies;
}

const RotaryAngles& RotaryTable::angles(int64_t length, const at::Tensor& like) {
  if (options_.dim == 0) return angles_;
  if (angles_.cos.defined() && angles_.cos.size(0) == length &&
      angles_.cos.options().type_equal(like.options()) &&
      angles_.cos.device() == like.device())
    return angles_;
  const c10::InferenceMode kept_for_gradients(false);
  const torch::NoGradGuard no_grad;
  const at::Tensor positions = torch::arange(length).to(at::kFloat).unsqueeze(1);
  const at::Tensor turns = positions * rotary_frequencies(options_);  // (T, dim / 2)
  angles_.cos = (turns.cos() * options_.attention_factor).to(like.options());
  angles_.sin = (turns.sin() * options_.attention_factor).to(like.options());
  return angles_;
}

}  // namespace zero
