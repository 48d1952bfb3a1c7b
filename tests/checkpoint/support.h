#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "checkpoint/reader.h"
#include "checkpoint/slices.h"

// The words in which the tests of this room are told.
namespace zero::checkpoint::testing {

// One whole tensor with its values.
struct TestTensor {
  Kind kind;
  std::string fqn;
  DType dtype;
  Shape shape;
  std::vector<char> bytes;
};

using TestModel = std::vector<TestTensor>;

// Values that differ with seed, name and place.
TestTensor make_tensor(Kind kind, const std::string& fqn, DType dtype, const Shape& shape,
                       int seed = 0);

// A few odd shapes, every type, moments, buffers and user bytes; about 60 KiB.
TestModel small_model(int seed = 0);

// The slices of one of `world_size` ranks when all sharded tensors are laid end to end
// and cut into equal parts, as an engine does with a flat unit: the cuts fall anywhere.
std::vector<Slice> slices_of(const TestModel& model, int rank, int world_size);
std::vector<Slice> slices_of(TestModel&&, int, int) = delete;  // slices borrow

// A folder of its own for each test, with a run's folder in it.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest();
  ~CheckpointTest() override;

  struct SaveOptions {
    int64_t step = 100;
    int world_size = 2;
    Existing existing = Existing::kRefuse;
    std::map<std::string, std::string> aliases = {};
    std::string config = "{}";
    std::string position = "{}";
    std::map<std::string, double> engine = {};
  };
  // All phases of a save, one rank after the other; discards and throws on on a failure.
  std::string save(const TestModel& model, const SaveOptions& options,
                   Io& io = system_io());
  std::string save(const TestModel& model) { return save(model, SaveOptions()); }

  std::string run;  // exists, empty
};

// Read the model back as `world_size` ranks would, each its slices alone.
void expect_holds(const std::string& checkpoint, const TestModel& model, int world_size);

// Does it hold this model, and is every byte sound?
bool holds(const std::string& checkpoint, const TestModel& model);

// The text of the CheckpointError that this throws; without one the test fails.
std::string error_of(const std::function<void()>& action);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

// Run a program of Python in the root folder, which has h5py, np and `path`; its output,
// or "FAILED" and its output.
std::string python(const std::string& path, const std::string& program);
bool has_h5py();

std::vector<std::string> files_of(const std::string& folder);
std::vector<std::string> leftovers_of(const std::string& run);  // is_temporary()

// Writes nothing, and counts syncs.
class NoDisk : public Io {
 public:
  int num_syncs = 0;
  ssize_t pwrite(int, const void*, size_t bytes, off_t) override {
    return static_cast<ssize_t>(bytes);
  }
  int fsync(int) override { return ++num_syncs, 0; }
};

// Counts every call that would change the disk, and lets the k-th (from 0) go wrong.
class FaultyIo : public Io {
 public:
  int fail_at = -1;
  int error = 0;             // errno of the failure
  bool fail_after = true;    // all later calls too, as with a full or dead disk
  bool can_unlink = true;    // ... except unlink: a full disk lets one free space
  bool can_exchange = true;  // two names in one step
  bool is_killing = false;   // end the process instead, in the middle of a write
  int num_calls = 0;
  int short_writes = 0;     // > 0: no write takes more bytes than this
  int interrupt_every = 0;  // > 0: every so many-th write or fsync is interrupted

  int create(int folder, const char* name) override;
  ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) override;
  int fsync(int file) override;
  int mkdir(int folder, const char* name) override;
  int link(int folder, const char* from, const char* to) override;
  int rename(int folder, const char* from, const char* to) override;
  int exchange(int folder, const char* one, const char* other) override;
  int unlink(int folder, const char* name, bool is_folder) override;

 private:
  bool fails(const std::function<void()>& last_act = [] {});
  bool interrupts();
  int num_interruptible_ = 0;
};

}  // namespace zero::checkpoint::testing
