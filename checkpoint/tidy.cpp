#include "checkpoint/tidy.h"

#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

// `name` with the first number behind it that nobody has: "name", "name.2", ...
std::string free_name(const Folder& run, const std::string& name) {
  std::string result = name;
  for (int i = 2; run.has(result); ++i) result = name + "." + std::to_string(i);
  return result;
}

// True: the kill came between the two renames of a replacement, and is undone.
bool takes_name_back(const OpenRun& run, const std::string& name) {
  const auto step = replaced_step_of(name);
  if (!step || run.folder().has(step_folder(*step))) return false;
  run.rename(name, step_folder(*step));
  return true;
}

}  // namespace

void tidy(const OpenRun& run) {
  for (const std::string& name : run.folder().names()) {
    if (is_temporary(name) && !takes_name_back(run, name)) run.remove(name);
  }
  run.folder().sync(run.io());
}

std::string set_aside(const OpenRun& run, int64_t step) {
  const std::string name = step_folder(step);
  const std::string aside = free_name(run.folder(), name + ".damaged");
  run.rename(name, aside);
  run.folder().sync(run.io());
  return aside;
}

}  // namespace zero::checkpoint
