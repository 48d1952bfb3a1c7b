#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/collectives.h"
#include "engine/comm/ranks.h"
#include "engine/device/host_device.h"

namespace zero {

// A way to run several ranks, for the cases in comm_suite.cpp.
struct Backend {
  using Rank = std::function<void(Ranks&)>;

  std::string name;
  int size;
  // Run the body of every rank that this process plays, each in a new group; an exception
  // is a failure.
  std::function<void(const Rank&)> run;
  bool is_staged = false;  // collectives by way of other memory
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// Run a rank's body; what it throws becomes a test failure.
void run_rank(const Backend::Rank& body, Ranks& ranks);

class RanksTest : public testing::TestWithParam<Backend> {
 protected:
  int size() const { return GetParam().size; }
  void on_every_rank(const Backend::Rank& body) { GetParam().run(body); }
};

class CollectivesTest : public RanksTest {
 protected:
  void on_every_rank(const std::function<void(Collectives&)>& body) {
    GetParam().run([&](Ranks& ranks) {
      if (!GetParam().is_staged) return body(*ranks.make_collectives());
      const auto device = make_host_device();
      std::vector<std::byte> memory(2048 * size());  // several pieces of most arrays
      body(*make_staged_collectives(ranks.make_collectives(), *device, memory));
    });
  }
};

}  // namespace zero
