// The composition root: knows the models and hands them to the launcher.
#include "examples/models/families.h"
#include "launcher/launch.h"

int main(int argc, char** argv) {
  return zero::launch(argc, argv, zero::example_families());
}
