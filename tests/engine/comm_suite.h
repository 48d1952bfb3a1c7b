#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/collectives.h"
#include "engine/device/host_device.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero {

struct Mesh;

// A way to run several ranks, for the cases in comm_suite.cpp.
struct Backend {
  using Rank = std::function<void(Ranks&)>;

  std::string name;
  int size;
  // Run the body of every rank that this process plays, each in a new group; an exception
  // is a failure.
  std::function<void(const Rank&)> run;
  using Body = std::function<void(Collectives&, Device&)>;
  // Run the body with this rank's collectives and the device whose memory they are for.
  std::function<void(Ranks&, const Body&)> with_collectives = on_the_host;
  int64_t most_bytes = 1 << 30;  // that travel in one of the calls behind a call

  static void on_the_host(Ranks& ranks, const Body& body);
};

// The same ranks, whose collectives go by way of other memory.
Backend staged(Backend backend);

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// At its end the stream touches none of what was made before it, even if a call threw.
class Drained {
 public:
  explicit Drained(Stream& stream) : stream_(stream) {}
  ~Drained() {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {
      // what went wrong is thrown already
    }
  }

 private:
  Stream& stream_;
};

// Run `call`, which must throw a zero::Error, and return it.
Error error_of(const std::function<void()>& call);

// Gather and reduce among the ranks of a group (`comm`) and among the same member of all
// groups (`across`), in one stream: what every rank then has.
void expect_mesh_works(const Mesh& mesh, int rank, Collectives& comm, Collectives& across,
                       Stream& stream);

// Run a rank's body; what it throws becomes a test failure.
void run_rank(const Backend::Rank& body, Ranks& ranks);

// Run the tests of this process, a rank of `world`: rank 0 prints as usual, the others
// only their failures. 1 on every rank if any rank saw a failure.
int run_tests_of_rank(Ranks& world);

class RanksTest : public ::testing::TestWithParam<Backend> {
 protected:
  int size() const { return GetParam().size; }
  void on_every_rank(const Backend::Rank& body) { GetParam().run(body); }
};

class CollectivesTest : public RanksTest {
 protected:
  void on_every_rank(const Backend::Body& body) {
    GetParam().run([&](Ranks& ranks) { GetParam().with_collectives(ranks, body); });
  }
};

}  // namespace zero
