#pragma once
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// What stands behind `zero_launch train`, taken apart but not yet judged.
struct CommandLine {
  std::vector<std::string> words;  // all of them, from the verb on; launch() knows them
  std::string kind;         // behind `bench`, where no flag stands; launch() knows it
  RawValues flags;          // with all the words that each was given
  std::string config_file;  // --config FILE; empty: none
  std::string from;         // --from DIR, or DIR alone; empty: none
  std::vector<std::string> folders;  // that stand alone behind it, or both: diff A B
  std::string to;                    // --to DIR; empty: none
  std::string max_shard_size;        // --max-shard-size BYTES; empty: as export does
  std::string write;                 // --write FILE; empty: none
  std::string rounds;                // --rounds N; empty: as bench does
  std::string size;                  // --size BYTES; empty: as bench does
  std::vector<std::string> fqns;     // --fqn GLOB...; empty: all tensors
  std::vector<std::string> maps;     // --map GLOB=NAME...; empty: none
  bool replace = false;
  bool merge = false;
  bool adapter = false;
  bool norms = false;
  bool state = false;
  bool json = false;
  bool print_config = false;
  bool dry_run = false;
  bool help = false;
  bool verbose = false;
  bool quiet = false;
  Problems problems;  // unknown flags and stray words
};

// Take the words behind the verb apart: --key value, --key=value, lists up to the next
// flag, booleans as --key or --no-key, and the folders that a verb takes without a flag.
// Reads on behind every problem, so that all of them are found.
CommandLine read_command_line(const std::vector<std::string>& words,
                              const std::string& verb = "");

// Throw Error(kUsage) for a verb that takes no settings: any that are given, with all
// other problems of the command line.
void require_no_settings(const CommandLine& line, const std::string& verb);

}  // namespace zero::launcher
