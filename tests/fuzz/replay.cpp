// Stands in for libFuzzer, for all targets: run one on every file of some folders.
//
//   fuzz_replay TARGET FOLDER...
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#define ZERO_FUZZ_TARGETS(X) \
  X(config)                  \
  X(command_line)            \
  X(manifest) X(position) X(metrics) X(lock) X(safetensors) X(model_config) X(adapter)
#define ZERO_FUZZ_DECLARE(name)         \
  namespace zero::fuzz::name {          \
  void target(const std::string& text); \
  }
#define ZERO_FUZZ_ENTRY(name) {#name, zero::fuzz::name::target},

ZERO_FUZZ_TARGETS(ZERO_FUZZ_DECLARE)

namespace {

using Target = std::function<void(const std::string&)>;

const std::map<std::string, Target> kTargets = {ZERO_FUZZ_TARGETS(ZERO_FUZZ_ENTRY)};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool passes(const Target& target, const std::filesystem::path& path) {
  try {
    target(bytes_of(path));
    return true;
  } catch (const std::exception& error) {
    std::cerr << path.string() << ": " << error.what() << '\n';
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto target = kTargets.find(argc > 1 ? argv[1] : "");
  if (target == kTargets.end()) {
    std::cerr << "fuzz_replay TARGET FOLDER...: no target of that name\n";
    return 2;
  }
  int num_files = 0, num_failed = 0;
  for (int i = 2; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      ++num_files;
      num_failed += !passes(target->second, file.path());
    }
  }
  std::cerr << num_files << " files, " << num_failed << " failed\n";
  return num_files > 0 && num_failed == 0 ? 0 : 1;
}
