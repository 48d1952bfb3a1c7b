#pragma once
#include <string>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// What stands behind `zero_launch train`, taken apart but not yet judged.
struct CommandLine {
  std::vector<std::string> words;  // all of them, from the verb on; launch() knows them
  std::string kind;            // behind `bench`, where no flag stands; launch() knows it
  RawValues flags;             // with all the words that each was given
  std::string config_file;     // --config FILE; empty: none
  std::string from;            // --from DIR; empty: none
  std::string to;              // --to DIR; empty: none
  std::string max_shard_size;  // --max-shard-size BYTES; empty: as export does
  std::string write;           // --write FILE; empty: none
  std::string rounds;          // --rounds N; empty: as bench does
  std::string size;            // --size BYTES; empty: as bench does
  bool replace = false;
  bool json = false;
  bool print_config = false;
  bool help = false;
  Problems problems;  // unknown flags and stray words
};

// Take the words behind the verb apart: --key value, --key=value, lists up to the next
// flag, booleans as --key or
// --no-key. Reads on behind every problem, so that all of them are found.
CommandLine read_command_line(const std::vector<std::string>& words);

// What is wrong with flags that are no settings: those of other verbs that are given, and
// --from where a verb needs it.
Problems check_flags(const CommandLine& line, const std::string& verb);

// What an unknown name could mean: "; nearest: seq_len" in that spelling (key_of,
// flag_of, variable_of), "; here: lr" or "".
std::string advice_for(const std::string& name, Spelling spelling);

}  // namespace zero::launcher
