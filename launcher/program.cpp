// The composition root: knows the models and hands them to the launcher. main.cpp loads
// it.
#include "examples/models/families.h"
#include "launcher/launch.h"

extern "C" int zero_program(int argc, char** argv) {
  return zero::launch(argc, argv, zero::example_families());
}
