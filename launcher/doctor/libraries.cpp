#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/h5_files.h"
#include "engine/comm/mpi.h"
#include "launcher/doctor/finding.h"
#include "offload/thread_pool.h"

namespace zero::launcher {
namespace {

// Versions that the build has found; 0: none.
#ifndef ZERO_CUDART_VERSION
#define ZERO_CUDART_VERSION 0
#endif
#ifndef ZERO_NCCL_VERSION
#define ZERO_NCCL_VERSION 0
#endif

#ifdef __clang__
constexpr char kCompiler[] = __VERSION__;
#else
constexpr char kCompiler[] = "g++ " __VERSION__;
#endif

// What a library of this process says when it is asked; 0: it is not loaded.
int ask_loaded(const char* library, const char* function) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return 0;
  int version = 0;
  if (const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(handle, function)))
    ask(&version);
  dlclose(handle);
  return version;
}

LibraryFacts facts_of(const std::string& name,
                      const std::pair<std::string, std::string>& versions) {
  return {name, versions.first, versions.second};
}

Finding judge_one(const LibraryFacts& library) {
  const auto& [name, built_with, loaded, must_match] = library;
  if (built_with.empty()) return {Mark::kOk, name, "built without it"};
  if (loaded.empty())
    return {Mark::kOk, name, built_with + ", not loaded: nothing here asks for it"};
  if (loaded == built_with) return {Mark::kOk, name, loaded};
  return {
      must_match ? Mark::kBad : Mark::kNote, name,
      fmt::format("{} is loaded, {} was built with", loaded, built_with),
      "build again where it is to run (scripts/build.sh), or look at LD_LIBRARY_PATH"};
}

}  // namespace

std::vector<LibraryFacts> read_libraries(
    const std::pair<std::string, std::string>& torch) {
  const auto [mpi_headers, mpi_loaded] = mpi_versions();
  return {{"LibTorch", torch.first, torch.second, true},
          facts_of("OpenMPI", {mpi_headers, version_in(mpi_loaded)}),
          facts_of("HDF5", checkpoint::hdf5_versions()),
          facts_of("oneTBB", tbb_versions()),
          {"CUDA runtime", cuda_version_text(ZERO_CUDART_VERSION),
           cuda_version_text(ask_loaded("libcudart.so.13", "cudaRuntimeGetVersion"))},
          {"NCCL", nccl_version_text(ZERO_NCCL_VERSION),
           nccl_version_text(ask_loaded("libnccl.so.2", "ncclGetVersion"))}};
}

Findings judge(const std::vector<LibraryFacts>& libraries) {
  Findings findings = {{Mark::kOk, "zero", program_version()},
                       {Mark::kOk, "compiler", kCompiler}};
  for (const LibraryFacts& library : libraries) findings.push_back(judge_one(library));
  return findings;
}

std::string cuda_version_text(int number) {
  return number == 0 ? "" : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string nccl_version_text(int number) {
  return number == 0 ? ""
                     : fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100,
                                   number % 100);
}

std::string version_in(const std::string& text) {
  constexpr char kDigits[] = "0123456789", kVersion[] = "0123456789.";
  for (size_t at = 0; (at = text.find_first_of(kDigits, at)) != text.npos;) {
    const size_t end = std::min(text.find_first_not_of(kVersion, at), text.size());
    if (text.substr(at, end - at).find('.') != text.npos)
      return text.substr(at, end - at);
    at = end;
  }
  return "";
}

std::string program_version() { return ZERO_VERSION; }

}  // namespace zero::launcher
