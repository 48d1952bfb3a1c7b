#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "engine/comm/communicator.h"

namespace zero {

// A way to run several ranks, for the cases in comm_suite.cpp.
struct Backend {
  using Rank = std::function<void(Communicator&)>;

  std::string name;
  int size;
  // Run the body of every rank that this process plays, each with a new communicator; an
  // exception is a failure.
  std::function<void(const Rank&)> run;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// Run a rank's body; what it throws becomes a test failure.
void run_rank(const Backend::Rank& body, Communicator& comm);

class CommunicatorTest : public testing::TestWithParam<Backend> {
 protected:
  int size() const { return GetParam().size; }
  void on_every_rank(const Backend::Rank& body) { GetParam().run(body); }
};

}  // namespace zero
