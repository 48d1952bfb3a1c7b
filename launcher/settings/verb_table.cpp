#include "launcher/settings/verb_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/settings/values.h"

// The table itself: to add a verb, add what it takes here, and what it does in
// launcher/commands.
namespace zero::launcher {
namespace {

constexpr char kAll[] = "all";

// Settings of a process that holds a model, whatever it does with it.
const std::string kMachine =
    "ranks hosts device share_gpu tf32 threads adam_threads bind hang_timeout "
    "host_memory device_memory ignore_plan dtype master offload device_state_fraction "
    "pin prefetch wrap_min_numel reshard_after_forward allow_extra allow_missing seq_len "
    "model_config chaos delay trace_comm deterministic recompute";

// Of a verb whose settings come from wherever train's may.
std::string head_with_settings(const std::string& verb, const std::string& flags,
                               const std::string& between = "") {
  return fmt::format(
      "zero_launch {0} {1} [--any-setting value]...\n"
      "mpirun -n RANKS zero_launch {0} ...\n\n"
      "A setting is the flag --seq-len, the environment variable ZERO_SEQ_LEN, or the "
      "key seq_len of a file in TOML;\n"
      "the first of these that is given counts, then {2}the default in brackets.",
      verb, flags, between);
}

constexpr char kStep[] = "a run's folder or one of its steps";
constexpr char kStepOrModel[] =
    "a run's folder, one of its steps, or a model's folder of Hugging Face";
constexpr char kCheckpoints[] = "the checkpoint's, then ";

const VerbLine kConfig = {"--config FILE", "read settings from this file"};
const VerbLine kJson = {"--json", "print one JSON object"};
const VerbLine kFqn = {"--fqn GLOB...", "tensors of these names; * stands for any text"};
const VerbLine kState = {"--state", "what the optimizer keeps, and user bytes, too"};
const VerbLine kFrom = {"--from DIR",
                        "a step's folder, or a run's: its newest checkpoint; or a "
                        "model's folder of Hugging Face"};

const std::vector<Verb> kVerbs = {
    {.name = "train",
     .summary = "train a language model, its state sharded over all ranks",
     .head = head_with_settings("train", "--data PATH... --out DIR"),
     .lines = {kConfig,
               {"--print-config", "print all settings as such a file, and leave"}},
     .settings = kAll},
    {.name = "seed",
     .summary = "the first values of a model, for any number of ranks (--out DIR)",
     .head = "zero_launch seed --out DIR [--model NAME] [--preset NAME] [--seed N]..."
             "\n\nSettings are read as train reads them; these count here.",
     .lines = {kConfig},
     .settings = "model preset layers dim heads kv_heads ffn_dim vocab model_config "
                 "dropout data bytes seq_len seed out adam_threads",
     .has_groups = false},
    {.name = "plan",
     .summary = "will it fit? memory by owner, what would fit, the largest model",
     .head = head_with_settings("plan", "[--config FILE]"),
     .lines = {kConfig,
               {"--json", "print one JSON object instead of the table"},
               {"--write FILE", "write the settings that fit as such a file"}},
     .settings = kAll},
    {.name = "eval",
     .summary = "the loss of a model on data (--from DIR)",
     .head = head_with_settings("eval", "--from DIR [--data PATH...]", kCheckpoints),
     .lines = {kConfig, kFrom},
     .settings =
         kMachine + " seed data bytes eval_data eval_samples micro_batch loss_chunk",
     .folder = kStepOrModel},
    {.name = "generate",
     .summary = "a prompt, continued by a model (--from DIR)",
     .head = head_with_settings("generate", "--from DIR --sample PROMPT", kCheckpoints),
     .lines = {kConfig, kFrom},
     .settings = kMachine +
                 " micro_batch loss_chunk sample sample_tokens sample_temperature seed",
     // What it does with a prompt is what a run does with a sample.
     .own_flags = {{"--prompt", "sample"},
                   {"--num-tokens", "sample_tokens"},
                   {"--temperature", "sample_temperature"}},
     .folder = kStepOrModel},
    {.name = "inspect",
     .summary = "what a checkpoint or a folder of Hugging Face holds (inspect DIR)",
     .head = "zero_launch inspect DIR [--fqn GLOB...] [--norms] [--state] [--json]",
     .lines = {{"DIR",
                "a step's folder, or a run's or seed's: its newest checkpoint; or a "
                "folder of Hugging Face"},
               kFqn,
               {"--norms",
                "L2 norm, smallest, largest and mean value, in fp64, of what is "
                "finite; how many are not. Reads every byte of these tensors; "
                "without it none"},
               kState,
               kJson},
     .folder = kStepOrModel},
    {.name = "verify",
     .summary = "every byte of a checkpoint, or of all of a run's (verify DIR)",
     .head = "zero_launch verify DIR [--json]",
     .lines = {{"DIR", "a step's folder, or a run's: all its checkpoints"}, kJson},
     .folder = kStep},
    {.name = "diff",
     .summary = "two of them, tensor by tensor (diff A B)",
     .head = "zero_launch diff A B [--fqn GLOB...] [--state] [--json]",
     .lines = {{"A, B",
                "each a step's folder, or a run's or seed's: its newest checkpoint; "
                "or a folder of Hugging Face"},
               kFqn,
               kState,
               kJson},
     .notes = "\nExit code 0: all are equal, in type, shape and every bit; 1: they "
              "differ; 2 and more: an error.\n"
              "relative is the largest difference by A's largest magnitude, relative "
              "norm the L2 norm of the differences by A's.\n",
     .takes_two = true},
    {.name = "report",
     .summary = "a page of curves, samples and settings of a run (report DIR)",
     .head = "zero_launch report DIR [--to FILE]",
     .lines = {{"DIR", "a run's folder; the run may be at work"},
               {"--to FILE", "the page, for a browser [DIR/report.html]"}},
     .folder = "the folder of a run, its --out"},
    {.name = "export",
     .summary = "a checkpoint's model as a folder for Hugging Face (--from DIR --to DIR)",
     .head = "zero_launch export --from DIR --to DIR [--dtype fp32|bf16|fp16]",
     .lines = {{"--from DIR", "a step's folder, or a run's: its newest checkpoint"},
               {"--to DIR",
                "a new folder, which from_pretrained() of transformers loads"},
               {"--dtype fp32|bf16|fp16",
                "of the weights; left out: that of the weights that the run started "
                "from, else fp32"},
               {"--max-shard-size BYTES", "the most in a file of weights [5GiB]"},
               {"--replace", "a model that is in the folder"}},
     .folder = kStep},
    {.name = "bench",
     .summary = "what this machine does, each beside its limit (adam, step, ...)",
     .lines = {{"--json"}, {"--rounds"}, {"--size"}},
     .settings = kAll},
    {.name = "doctor",
     .summary = "what this machine offers, each finding with its cure",
     .lines = {{"--json"}}},
    {.name = "selftest",
     .summary = "the promised exactness, tried on this machine; a report to send",
     .lines = {{"--to"}, {"--json"}},
     .settings = kAll},
    {.name = "hello"}};

const Verb kUnknown = {.name = "", .settings = kAll};

}  // namespace

bool Verb::takes(const Setting& setting) const {
  return settings == kAll || std::ranges::count(split(settings, ' '), setting.key) > 0;
}

bool Verb::takes(const std::string& flag) const {
  const auto of_all = split("--config --help -h --verbose -v --quiet -q", ' ');
  return (flag == "--from" && !folder.empty()) || std::ranges::count(of_all, flag) > 0 ||
         std::ranges::any_of(lines, [&](const VerbLine& line) {
           return split(line.left, ' ')[0] == flag;
         });
}

const std::vector<Verb>& verb_table() { return kVerbs; }

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs)
    if (!verb.summary.empty()) names.push_back(verb.name);
  return names;
}

const Verb& find_verb(const std::string& name) {
  const auto found = std::ranges::find(kVerbs, name, &Verb::name);
  return found == kVerbs.end() ? kUnknown : *found;
}

}  // namespace zero::launcher
