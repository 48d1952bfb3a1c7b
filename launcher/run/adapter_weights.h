#pragma once
#include <string>

namespace zero {
class Engine;
}

namespace zero::launcher {

// Set the adapters of a model, and what else of it is trained, to the values that a
// folder of peft has; the rest stays. Collective. Throws as load_safetensors() does.
void read_adapter_weights(Engine& engine, const std::string& folder);

}  // namespace zero::launcher
