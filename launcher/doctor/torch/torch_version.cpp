#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <string>

#include "base/text.h"
#include "launcher/doctor/finding.h"

namespace zero::launcher {
namespace {

// By name, so that one which lacks it is told of, too: major, minor and patch, each in a
// byte, from the highest one on.
std::string loaded_version() {
  void* const ask = dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (!ask) return "a version before 2.9";
  const uint64_t version = reinterpret_cast<uint64_t (*)()>(ask)();
  return text_of(version >> 56, ".", version >> 48 & 0xff, ".", version >> 40 & 0xff);
}

}  // namespace

std::pair<std::string, std::string> torch_versions() {
  return {
      text_of(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH),
      loaded_version()};
}

}  // namespace zero::launcher
