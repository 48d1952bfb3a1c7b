#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "launcher/settings/config.h"

namespace zero::launcher {

// A folder that goes away with the test.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;

 private:
  std::string path_;
};

// One family, "gpt2", with the presets gpt2-tiny (the default: dim 64, 4 heads) and
// gpt2-124m.
ModelFamilies some_models();

// What is said about a configuration: its error's problem and where, or "" when it is
// fine.
struct Words {
  std::vector<std::string> flags;  // --data d --out o are added
  std::vector<std::string> environment = {};
  int num_ranks = 1;
  bool may_begin = false;
  const Settings* going_on = nullptr;
  const Settings* base = nullptr;
  std::function<bool()> has_gpu = {};
};
std::string complaint(const Words& words);
Settings settings_of(const Words& words);

}  // namespace zero::launcher
