#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// A line of a verb's page: a flag that is no setting, or what stands without one.
struct VerbLine {
  std::string left, right = {};  // "--fqn GLOB...", "tensors of these names"
};

struct VerbCall;  // launcher/commands/verbs.h

inline constexpr char kAllSettings[] = "all";

// What a verb takes, its page, and what it does. Each is told in a file of its own, in
// launcher/commands.
struct Verb {
  std::string name, summary = {};  // without the latter it is not for people
  // Returns the process's exit code. Throws what is wrong before ranks know each other,
  // and reports all else itself.
  int (*run)(const VerbCall& call) = nullptr;
  // The page: its head, its flags, what stands behind them.
  std::string head = {};
  std::vector<VerbLine> lines = {};
  std::string notes = {};
  std::string (*own_page)() = nullptr;  // instead of that
  // Keys of the settings that change what it does, or kAllSettings. Flags of others are
  // refused; a file and the environment may hold a whole run's. None: it reads them
  // itself.
  std::string settings = {};
  bool has_groups = true;                             // the page tells them by group
  std::map<std::string, std::string> own_flags = {};  // of some, by their key
  std::string folder = {};  // that stands alone, or behind --from; empty: none does
  bool takes_file = false;  // instead of a folder
  bool takes_two = false;   // folders that stand alone
  size_t num_more = 0;      // folders that may stand behind the one

  // As the verb's own flag calls it; "" where it has the name that it has elsewhere.
  std::string own_flag(const std::string& key) const;
  bool takes(const Setting& setting) const;
  bool takes(const std::string& flag) const;  // that is no setting
  std::string operand() const { return takes_file ? "file" : "folder"; }
  size_t num_folders() const { return takes_two ? 2 : folder.empty() ? 0 : 1 + num_more; }
};

// In the order of the overview: launcher/launch.cpp has it.
const std::vector<Verb>& verb_table();

// Of verbs for people.
std::vector<std::string> verb_names();

// One that is not in the table takes all settings.
const Verb& find_verb(const std::string& name);

}  // namespace zero::launcher
