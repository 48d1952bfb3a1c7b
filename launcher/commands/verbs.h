#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/process/world.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {

// What a verb is called with.
struct VerbCall {
  const CommandLine& line;
  const ModelFamilies& models;
  const std::vector<std::string>& environment;
  const std::optional<AnnouncedWorld>& announced;

  int rank() const { return announced ? announced->rank : 0; }
};

// Each verb: what it takes, its page, what it does.
Verb train_verb();
Verb seed_verb();
Verb tokenize_verb();
Verb plan_verb();
Verb presets_verb();
Verb eval_verb();
Verb generate_verb();
Verb predict_verb();
Verb inspect_verb();
Verb verify_verb();
Verb diff_verb();
Verb report_verb();
Verb export_verb();
Verb import_verb();
Verb bench_verb();
Verb doctor_verb();
Verb selftest_verb();
Verb hello_verb();  // what ranks that the doctor starts do; not for people

// What several of them say.

inline constexpr char kStepFolder[] = "a run's folder or one of its steps";
inline constexpr char kStepOrModelFolder[] =
    "a run's folder, one of its steps, or a model's folder of Hugging Face";

inline const VerbLine kConfigLine = {"--config FILE", "read settings from this file"},
                      kJsonLine = {"--json", "print one JSON object"},
                      kFqnLine = {"--fqn GLOB...",
                                  "tensors of these names; * stands for any text"},
                      kStateLine = {"--state",
                                    "what the optimizer keeps, and user bytes, too"};

// The head of a page. `between`: what counts between given settings and defaults.
inline std::string head_with_settings(const std::string& verb, const std::string& flags,
                                      const std::string& between = "") {
  return "zero_launch " + verb + " " + flags + " [--any-setting value]...\n" +
         "mpirun -n RANKS zero_launch " + verb + " ...\n\n" +
         "A setting is the flag --seq-len, the environment variable ZERO_SEQ_LEN, or the "
         "key seq_len of a file in TOML; the first of these that is given counts, then " +
         between + "the default in brackets.";
}

}  // namespace zero::launcher
