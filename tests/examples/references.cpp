#include "tests/examples/references.h"

#include <fnmatch.h>

#include <fstream>

#include "checkpoint/safetensors_folder.h"
#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/language_model.h"

namespace zero {
namespace {

const std::string kFolder = ZERO_REFERENCES;

nlohmann::json read_file(const std::string& path) {
  std::ifstream file(path);
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

}  // namespace

nlohmann::json read_json(const std::string& name) {
  return read_file(kFolder + "/" + name);
}

ModelFamily family_of(const nlohmann::json& config) {
  for (const ModelFamily& family : example_families()) {
    if (launcher::find_class(family, config)) return family;
  }
  throw std::runtime_error("no family has " + config.value("model_type", "no type"));
}

Reference::Reference(const std::string& name)
    : name(name),
      config(read_json(name + "/config.json")),
      numbers(read_json(name + "/reference.json")),
      family(family_of(config)) {
  launcher::Settings settings;
  shape = launcher::shape_of(family, launcher::complete_config(family, config), settings);
  shape.seq_len = 24;
}

std::unique_ptr<LanguageModel> Reference::model() const {
  auto made = as_language(family.make(shape));
  fill(*made->module());
  return made;
}

void Reference::fill(torch::nn::Module& module) const {
  const torch::NoGradGuard no_grad;
  checkpoint::SafetensorsFolder folder(kFolder + "/" + name);
  for (auto& item : module.named_parameters()) {
    if (!folder.tensors().contains(item.key())) continue;  // tied
    at::Tensor& weight = item.value();
    at::Tensor values = torch::empty(weight.sizes());
    folder.read(item.key(), 0, {values.data_ptr<float>(), size_t(values.numel())});
    weight.copy_(values);
  }
}

at::Tensor Reference::tokens() const {
  return to_tensor(numbers["samples"]).to(torch::kInt64).narrow(1, 0, 24);
}

at::Tensor Reference::targets() const {
  return to_tensor(numbers["samples"]).to(torch::kInt64).narrow(1, 1, 24).contiguous();
}

const std::vector<std::string>& reference_names() {
  static const std::vector<std::string> names = {"gpt2",
                                                 "llama",
                                                 "llama_biases",
                                                 "llama3",
                                                 "llama_yarn",
                                                 "llama_linear",
                                                 "mistral",
                                                 "qwen2",
                                                 "qwen2_sliding",
                                                 "qwen3",
                                                 "gptj",
                                                 "gpt_neox",
                                                 "gpt_neox_sequential",
                                                 "gpt_neox_no_bias"};
  return names;
}

InitSpec rule_for(const InitRules& rules, const std::string& fqn) {
  for (const auto& [glob, spec] : rules) {
    if (fnmatch(glob.c_str(), fqn.c_str(), 0) == 0) return spec;
  }
  throw std::runtime_error("no rule for " + fqn);
}

at::Tensor to_tensor(const nlohmann::json& numbers) {
  if (!numbers.is_array()) return torch::tensor(numbers.get<double>(), torch::kFloat64);
  std::vector<at::Tensor> rows;
  for (const auto& each : numbers) rows.push_back(to_tensor(each));
  return torch::stack(rows);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

}  // namespace zero
