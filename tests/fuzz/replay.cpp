// Stands in for libFuzzer: run a target on every file of the folders that are named.
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/target.h"

namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool passes(const std::filesystem::path& path) {
  const std::string bytes = bytes_of(path);
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::cerr << path.string() << ": " << error.what() << '\n';
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int num_files = 0, num_failed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& file : std::filesystem::directory_iterator(argv[i])) {
      ++num_files;
      num_failed += !passes(file.path());
    }
  }
  std::cerr << num_files << " files, " << num_failed << " failed\n";
  return num_files > 0 && num_failed == 0 ? 0 : 1;
}
