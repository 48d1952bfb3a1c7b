#pragma once
#include <torch/torch.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "zero/init_spec.h"

// Small models that transformers has run: see tests/references/README.md.
namespace zero {

nlohmann::json read_json(const std::string& name);  // in tests/references

class Reference {
 public:
  explicit Reference(const std::string& name);

  const std::string name;
  const nlohmann::json config;   // as it stands in the folder
  const nlohmann::json numbers;  // reference.json; null where it has none
  ModelFamily family;
  ModelShape shape;

  // With the folder's weights, outside of any engine.
  std::unique_ptr<LanguageModel> model() const;
  void fill(torch::nn::Module& module) const;

  at::Tensor tokens() const;   // (2, 24)
  at::Tensor targets() const;  // (2, 24)
};

const std::vector<std::string>& reference_names();

ModelFamily family_of(const nlohmann::json& config);

// The rule that fills `fqn`: the first whose glob matches.
InitSpec rule_for(const InitRules& rules, const std::string& fqn);

// (numbers) fp32, of any shape that JSON's lists have.
at::Tensor to_tensor(const nlohmann::json& numbers);

double largest_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace zero
