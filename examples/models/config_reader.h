#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace zero {

// Read a config's values, each with its type and its limits. All but the constructor
// throw Error(kUsage) that names family, key and what is allowed.
class ConfigReader {
 public:
  // `config` must outlive this object. `family`: for errors.
  ConfigReader(const nlohmann::json& config, std::string family)
      : config_(config), family_(std::move(family)) {}

  int64_t integer(const std::string& key, int64_t min = 1, int64_t max = 1 << 24) const;
  // `otherwise` where it is null, or not there.
  int64_t integer_or(const std::string& key, int64_t otherwise, int64_t min = 1,
                     int64_t max = 1 << 24) const;
  double number(const std::string& key, double min, double max) const;  // both included
  double number_or(const std::string& key, double otherwise, double min,
                   double max) const;
  bool boolean(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;

  bool has(const std::string& key) const;  // and it is not null
  const nlohmann::json& at(const std::string& key) const;
  // Throws unless it holds.
  void require(bool holds, const std::string& problem, const std::string& cure) const;

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const;

  const nlohmann::json& config_;
  const std::string family_;
};

}  // namespace zero
