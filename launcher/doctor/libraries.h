#pragma once
#include <string>
#include <utility>
#include <vector>

#include "launcher/doctor/finding.h"

namespace zero::launcher {

struct LibraryFacts {
  std::string name;
  std::string built_with;   // the version of the headers; empty: without it
  std::string loaded;       // empty: it is not
  bool must_match = false;  // another version does not work
};

// `torch` as torch_versions() tells.
std::vector<LibraryFacts> read_libraries(const std::pair<std::string, std::string>& torch);

Findings judge(const std::vector<LibraryFacts>& libraries);

// Of LibTorch, as of the others: headers, and what is loaded.
std::pair<std::string, std::string> torch_versions();

// How CUDA and NCCL write their versions: (13010, 1000) -> "13.1", (22809, 10000) ->
// "2.28.9".
std::string cuda_version_text(int number);
std::string nccl_version_text(int number);

// The first number with dots in a text: "4.1.4"; empty: none.
std::string version_in(const std::string& text);

// This program's.
std::string program_version();

}  // namespace zero::launcher
