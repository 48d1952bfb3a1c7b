// The composition root: knows the models and hands them to the launcher. main.cpp loads
// it.
#include "examples/models/families.h"
#include "examples/vision/families.h"
#include "launcher/launch.h"

extern "C" int zero_program(int argc, char** argv) {
  zero::ModelFamilies models = zero::example_families();
  models.push_back(zero::regnet_family());
  return zero::launch(argc, argv, models);
}
