#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios {

// Stories that begin with a folder of Hugging Face: copies of tests/references, which a
// test may damage, and tokens for them.
class ModelFolders : public Scenario {
 protected:
  // tokens.bin: the two samples of reference.json, each behind one that nobody wants.
  ModelFolders();

  static nlohmann::json reference(const std::string& name);  // reference.json
  // Without reference.json; returns its path.
  std::string copy(const std::string& name, const std::string& as) const;
  std::string copy(const std::string& name) const { return copy(name, name); }

  // With a seed that puts the reference's samples, each twice, into the first step.
  Words train_from(const std::string& folder, const std::string& out,
                   const Words& flags) const;
  // uint16, as nanoGPT writes them.
  std::string write_tokens(const std::string& name,
                           const std::vector<int64_t>& tokens) const;

  // Change a JSON file, or the header and the values of model.safetensors.
  static void edit(const std::string& path,
                   const std::function<void(nlohmann::json& json)>& change);
  static void edit_weights(
      const std::string& folder,
      const std::function<void(nlohmann::json& header, std::string& values)>& change);
};

// All values of a folder's safetensors, or of this file of it, as fp32.
std::map<std::string, std::vector<float>> read_weights(const std::string& folder,
                                                       const std::string& file = "");

// The folder's files, with what is in them; empty: it is not there.
std::map<std::string, std::string> files_in(const std::string& folder);

}  // namespace zero::scenarios
