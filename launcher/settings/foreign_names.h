#pragma once
#include <string>
#include <vector>

namespace zero::launcher {

// What other tools call things: PyTorch, torchrun, Hugging Face's Trainer, DeepSpeed,
// fairseq, Megatron-LM, nanoGPT, llm.c and llama.cpp. Names are answered, never taken.
// '-' and '_' are the same.

// What a setting of another tool is called here, or why there is none, with our names
// marked: "here: @global_batch, samples of a step on all ranks together". The likeliest
// comes first; others are for verbs that do not take what it names. Empty for names that
// no tool we know has.
std::vector<std::string> foreign_name_advice(const std::string& name);

// The same for a name that is misspelt: "perhaps learning_rate; here: @lr". "" where none
// is near.
std::string nearly_foreign_name_advice(const std::string& name);

// What to type instead of a verb that others have: "here: train --init-from DIR". "" for
// words that nobody has.
std::string foreign_verb_advice(const std::string& word);

}  // namespace zero::launcher
