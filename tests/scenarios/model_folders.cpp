#include "tests/scenarios/model_folders.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/safetensors_folder.h"

namespace zero::scenarios {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string path_of(const std::string& reference) {
  return std::string(ZERO_REFERENCES) + "/" + reference;
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

ModelFolders::ModelFolders() {
  const json samples = reference("llama")["samples"];
  std::vector<int64_t> tokens;
  // Neighbours share a token, and these two have none in common.
  const std::vector<int64_t> between(23, 1);
  for (int i = 0; i < 2; ++i) {
    for (const std::vector<int64_t> sample : samples) {
      if (!tokens.empty()) tokens.insert(tokens.end(), between.begin(), between.end());
      tokens.insert(tokens.end(), sample.begin(), sample.end());
    }
  }
  write_tokens("tokens.bin", tokens);
}

json ModelFolders::reference(const std::string& name) {
  return json::parse(read_file(path_of(name) + "/reference.json"));
}

std::string ModelFolders::copy(const std::string& name, const std::string& as) const {
  fs::copy(path_of(name), path(as));
  fs::remove(path(as) + "/reference.json");
  return path(as);
}

Words ModelFolders::train_from(const std::string& folder, const std::string& out,
                               const Words& flags) const {
  Words words =
      verb("train", {"--init-from", folder, "--data", path("tokens.bin"), "--out",
                     path(out), "--seq-len=24", "--global-batch=4", "--micro-batch=1",
                     "--seed=73", "--threads=1", "--adam-threads=1",
                     "--schedule=constant", "--eval-fraction=0"});
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

std::string ModelFolders::write_tokens(const std::string& name,
                                       const std::vector<int64_t>& tokens) const {
  std::string bytes;
  for (const int64_t token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return write(name, bytes);
}

void ModelFolders::edit(const std::string& path,
                        const std::function<void(json& json)>& change) {
  json content = json::parse(read_file(path));
  change(content);
  overwrite(path, content.dump());
}

void ModelFolders::edit_weights(
    const std::string& folder,
    const std::function<void(json& header, std::string& values)>& change) {
  const std::string file = folder + "/model.safetensors", bytes = read_file(file);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  json header = json::parse(bytes.substr(sizeof size, size));
  std::string values = bytes.substr(sizeof size + size);
  change(header, values);
  const std::string text = header.dump();
  size = text.size();
  overwrite(file, std::string(reinterpret_cast<const char*>(&size), sizeof size) + text +
                      values);
}

std::map<std::string, std::vector<float>> read_weights(const std::string& folder,
                                                       const std::string& file) {
  checkpoint::SafetensorsFolder files(folder, file);
  std::map<std::string, std::vector<float>> weights;
  for (const auto& [name, tensor] : files.tensors()) {
    std::vector<float>& values = weights[name];
    values.resize(static_cast<size_t>(tensor.numel()));
    files.read(name, 0, values);
  }
  return weights;
}

std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder)] = read_file(entry.path());
  }
  return files;
}

}  // namespace zero::scenarios
