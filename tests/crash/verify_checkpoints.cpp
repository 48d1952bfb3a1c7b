// verify_checkpoints FOLDER...: a line for each, what is wrong with it or nothing, by
// every byte.
#include <cstdio>

#include "checkpoint/error.h"
#include "checkpoint/verify.h"

using namespace zero::checkpoint;

namespace {

std::string problem_of(const std::string& folder) {
  try {
    const VerifyReport report = verify(folder);
    return report.is_sound() ? "" : report.damages.front().without_cure();
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string problem = problem_of(argv[i]);
    for (char& c : problem) c = c == '\n' ? ' ' : c;
    std::puts(problem.c_str());
  }
}
