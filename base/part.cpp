#include "base/part.h"

#include <dlfcn.h>

#include <filesystem>

namespace zero {
namespace {

namespace fs = std::filesystem;

// Where the program, or whatever this code is part of, lies; "" where nobody knows.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_part), &info) == 0 || !info.dli_fname)
    return "";
  return fs::path(info.dli_fname).parent_path();
}

}  // namespace

void* open_part(const std::string& library, std::string& reasons) {
  const fs::path here = own_folder();
  for (const fs::path& path :
       {here / library, here / "../lib" / library, fs::path(library)}) {
    if (path.has_parent_path() && !fs::exists(path)) continue;
    if (void* part = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return part;
    reasons += (reasons.empty() ? "" : "; ") + std::string(dlerror());
  }
  return nullptr;
}

}  // namespace zero
