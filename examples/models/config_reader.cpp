#include "examples/models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/json.h"
#include "zero/errors.h"

namespace zero {

bool ConfigReader::has(const std::string& key) const {
  const auto found = config_.find(key);
  return found != config_.end() && !found->is_null();
}

const nlohmann::json& ConfigReader::at(const std::string& key) const {
  const auto found = config_.find(key);
  if (found == config_.end())
    throw Error(ExitCode::kUsage, key + " is missing", "config of model " + family_,
                "a config.json that has it");
  return *found;
}

void ConfigReader::refuse(const std::string& key, const std::string& allowed) const {
  throw Error(ExitCode::kUsage, key + " is " + checkpoint::shown(at(key)),
              "config of model " + family_, key + ": " + allowed);
}

void ConfigReader::require(bool holds, const std::string& problem,
                           const std::string& cure) const {
  if (!holds) throw Error(ExitCode::kUsage, problem, "config of model " + family_, cure);
}

int64_t ConfigReader::integer(const std::string& key, int64_t min, int64_t max) const {
  const auto value = checkpoint::integer_in(at(key), min, max);
  if (!value)
    refuse(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return *value;
}

int64_t ConfigReader::integer_or(const std::string& key, int64_t otherwise, int64_t min,
                                 int64_t max) const {
  return has(key) ? integer(key, min, max) : otherwise;
}

double ConfigReader::number(const std::string& key, double min, double max) const {
  const nlohmann::json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= min && number <= max))
    refuse(key, "a number from " + nlohmann::json(min).dump() + " to " +
                    nlohmann::json(max).dump());
  return number;
}

double ConfigReader::number_or(const std::string& key, double otherwise, double min,
                               double max) const {
  return has(key) ? number(key, min, max) : otherwise;
}

bool ConfigReader::boolean(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::string ConfigReader::text(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) refuse(key, "a text");
  return value.get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) const {
  const nlohmann::json& value = at(key);
  const auto is_text = [](const nlohmann::json& each) { return each.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_text))
    refuse(key, "a list of texts");
  return value;
}

}  // namespace zero
