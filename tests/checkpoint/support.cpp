#include "support.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/verify.h"
#include "checkpoint/writer.h"

namespace zero::checkpoint::testing {
namespace {

int64_t numel_of(const TestTensor& tensor) { return checked_numel(tensor.shape).value(); }

Slice slice_of(const TestTensor& tensor, int64_t begin, int64_t numel) {
  return {{tensor.kind, tensor.fqn, tensor.dtype, tensor.shape},
          begin,
          numel,
          tensor.bytes.data() + begin * size_of(tensor.dtype)};
}

// In memory where that is possible: these tests call fsync thousands of times.
std::string base_folder() {
  const bool is_chosen = std::getenv("TEST_TMPDIR") != nullptr;
  const bool has_memory = ::access("/dev/shm", W_OK) == 0;
  return has_memory && !is_chosen ? "/dev/shm/" : ::testing::TempDir();
}

constexpr char kPython[] = "/usr/bin/python3";

}  // namespace

std::string python(const std::string& path, const std::string& program) {
  const std::string script = path + "/../script.py";
  write_file(script,
             "import h5py, numpy as np\n"
             "path = '" +
                 path + "'\n" + program);
  const std::string command = "cd / && " + std::string(kPython) + " " + script + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> block;
  while (const size_t bytes = std::fread(block.data(), 1, block.size(), pipe)) {
    output.append(block.data(), bytes);
  }
  return ::pclose(pipe) == 0 ? output : "FAILED " + output;
}

bool has_h5py() {
  const std::string command = std::string(kPython) + " -c 'import h5py' 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

TestTensor make_tensor(Kind kind, const std::string& fqn, DType dtype, const Shape& shape,
                       int seed) {
  TestTensor tensor{kind, fqn, dtype, shape, {}};
  const size_t bytes = static_cast<size_t>(numel_of(tensor) * size_of(dtype));
  const auto start = static_cast<uint64_t>(seed * 5 + static_cast<int>(kind));
  uint64_t state = std::hash<std::string>()(fqn) ^ (start * 0x9E3779B97F4A7C15u);
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tensor.bytes.push_back(static_cast<char>(state >> 56));
  }
  return tensor;
}

TestModel small_model(int seed) {
  TestModel model;
  for (const Kind kind : {Kind::kParam, Kind::kExpAvg, Kind::kExpAvgSq}) {
    model.push_back(make_tensor(kind, "wte.weight", DType::kFp32, {37, 11}, seed));
    model.push_back(make_tensor(kind, "blocks.0.w", DType::kFp32, {3, 5, 7}, seed));
    model.push_back(make_tensor(kind, "blocks.0.norm", DType::kFp32, {1}, seed));
    model.push_back(make_tensor(kind, "blocks.1.w", DType::kFp32, {41, 53}, seed));
    model.push_back(make_tensor(kind, "scale", DType::kFp32, {}, seed));
  }
  model.push_back(make_tensor(Kind::kParam, "half", DType::kBf16, {9, 2, 2, 3}, seed));
  model.push_back(make_tensor(Kind::kParam, "empty", DType::kFp32, {4, 0}, seed));
  model.push_back(make_tensor(Kind::kParam, "100% größe %b", DType::kFp16, {7}, seed));
  model.push_back(make_tensor(Kind::kBuffer, "mask", DType::kBool, {4, 4}, seed));
  model.push_back(make_tensor(Kind::kBuffer, "count", DType::kInt64, {}, seed));
  model.push_back(make_tensor(Kind::kBuffer, "angles", DType::kFp64, {3, 2}, seed));
  model.push_back(make_tensor(Kind::kBuffer, "ids", DType::kInt32, {5}, seed));
  model.push_back(make_tensor(Kind::kUser, "notes", DType::kUint8, {123}, seed));
  return model;
}

std::vector<Slice> slices_of(const TestModel& model, int rank, int world_size) {
  int64_t total = 0;
  for (const auto& tensor : model)
    total += is_replicated(tensor.kind) ? 0 : numel_of(tensor);
  const int64_t part = (total + world_size - 1) / world_size;
  std::vector<Slice> slices;
  int64_t at = 0;
  for (const auto& tensor : model) {
    const int64_t numel = numel_of(tensor);
    if (is_replicated(tensor.kind)) {
      if (rank == 0) slices.push_back(slice_of(tensor, 0, numel));
      continue;
    }
    const int64_t begin = std::clamp(part * rank - at, int64_t{0}, numel);
    const int64_t end = std::clamp(part * (rank + 1) - at, int64_t{0}, numel);
    slices.push_back(slice_of(tensor, begin, end - begin));
    at += numel;
  }
  return slices;
}

CheckpointTest::CheckpointTest() {
  std::string folder = base_folder() + "zero_checkpoint_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp " + folder);
  run = folder + "/run";
  std::filesystem::create_directory(run);
}

CheckpointTest::~CheckpointTest() {
  std::error_code ignored;
  std::filesystem::remove_all(run.substr(0, run.size() - 4), ignored);
}

std::string CheckpointTest::save(const TestModel& model, const SaveOptions& options,
                                 Io& io) {
  make_run_folder(run);
  const OpenRun open(run, io);
  std::string folder = prepare(open, options.step, options.existing);
  try {
    std::vector<ShardReport> reports;
    for (int rank = 0; rank < options.world_size; ++rank) {
      const auto slices = slices_of(model, rank, options.world_size);
      const auto report = write_shard(folder, rank, options.world_size, slices, io);
      reports.push_back(parse_report(to_text(report)));  // as if gathered over a wire
    }
    const StepInfo info{options.step, options.aliases, options.config, options.position,
                        options.engine};
    return commit(open, folder, reports, info, options.existing);
  } catch (const CheckpointError&) {
    discard(open, folder);
    throw;
  }
}

void expect_holds(const std::string& checkpoint, const TestModel& model, int world_size) {
  Reader reader(checkpoint);
  for (int rank = 0; rank < world_size; ++rank) {
    for (const auto& slice : slices_of(model, rank, world_size)) {
      const auto& [kind, fqn, dtype, shape, pieces] = slice.tensor;
      std::vector<char> read(static_cast<size_t>(slice.num_bytes()));
      reader.read(kind, fqn, slice.begin, slice.numel, read.data());
      EXPECT_TRUE(
          std::equal(read.begin(), read.end(), static_cast<const char*>(slice.data)))
          << name_of(kind) << "/" << fqn << " on rank " << rank;
    }
  }
}

bool holds(const std::string& checkpoint, const TestModel& model) {
  if (!verify(checkpoint).is_sound()) return false;
  Reader reader(checkpoint);
  return std::all_of(model.begin(), model.end(), [&](const TestTensor& tensor) {
    return reader.read_all(tensor.kind, tensor.fqn) == tensor.bytes;
  });
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<std::string> files_of(const std::string& folder) {
  return Folder(folder).names();
}

std::vector<std::string> leftovers_of(const std::string& run) {
  auto names = files_of(run);
  std::erase_if(names, [](const std::string& name) { return !is_temporary(name); });
  return names;
}

bool FaultyIo::fails(const std::function<void()>& last_act) {
  const int call = num_calls++;
  if (fail_at < 0 || call < fail_at || (call > fail_at && !fail_after)) return false;
  if (is_killing) {
    last_act();
    ::_exit(9);
  }
  errno = error;
  return true;
}

bool FaultyIo::interrupts() {
  if (interrupt_every == 0 || ++num_interruptible_ % interrupt_every != 0) return false;
  errno = EINTR;
  return true;
}

int FaultyIo::create(int folder, const char* name) {
  return fails() ? -1 : Io::create(folder, name);
}

ssize_t FaultyIo::pwrite(int file, const void* data, size_t bytes, off_t offset) {
  if (interrupts()) return -1;
  if (short_writes > 0) bytes = std::min(bytes, static_cast<size_t>(short_writes));
  const auto write_half = [&] { Io::pwrite(file, data, bytes / 2, offset); };
  return fails(write_half) ? -1 : Io::pwrite(file, data, bytes, offset);
}

int FaultyIo::fsync(int file) {
  if (interrupts()) return -1;
  return fails() ? -1 : Io::fsync(file);
}

int FaultyIo::mkdir(int folder, const char* name) {
  return fails() ? -1 : Io::mkdir(folder, name);
}

int FaultyIo::link(int folder, const char* from, const char* to) {
  return fails() ? -1 : Io::link(folder, from, to);
}

int FaultyIo::rename(int folder, const char* from, const char* to) {
  return fails() ? -1 : Io::rename(folder, from, to);
}

int FaultyIo::exchange(int folder, const char* one, const char* other) {
  if (can_exchange) return fails() ? -1 : Io::exchange(folder, one, other);
  errno = EINVAL;
  return -1;
}

int FaultyIo::unlink(int folder, const char* name, bool is_folder) {
  const bool is_failing = fails() && !can_unlink;
  return is_failing ? -1 : Io::unlink(folder, name, is_folder);
}

}  // namespace zero::checkpoint::testing
