#include <cstring>
#include <memory>

#include "engine/device/gpu.h"
#include "launcher/bench/benches.h"
#include "offload/host_arena.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// Pinned memory of the host, memory of a GPU, and a stream each way.
class Link {
 public:
  Link(int gpu, int64_t bytes)
      : bytes_(bytes),
        device_(make_gpu(gpu)),
        host_("bench", 2 * HostArena::padded(bytes)),
        source_(host_.allocate("source", bytes)),
        target_(host_.allocate("target", bytes)),
        pinned_(*device_, host_.data(), host_.capacity_bytes()),
        to_(device_->allocate("bench", bytes)),
        from_(device_->allocate("bench", bytes)),
        in_(device_->make_stream("in")),
        out_(device_->make_stream("out")) {
    std::memset(host_.data(), 1, host_.capacity_bytes());
    in_->set_bytes(from_, 2, bytes);
    in_->synchronize();
  }
  ~Link() {
    in_.reset();
    out_.reset();
    device_->free(to_);
    device_->free(from_);
  }

  void copy(bool in, bool out) {
    if (in) in_->copy(to_, source_, bytes_);
    if (out) out_->copy(target_, from_, bytes_);
    if (in) in_->synchronize();
    if (out) out_->synchronize();
  }
  void copy_on_host() { std::memcpy(target_, source_, bytes_); }

 private:
  const int64_t bytes_;
  const std::unique_ptr<Device> device_;
  HostArena host_;
  std::byte *const source_, *const target_;
  const Pinned pinned_;
  void *const to_, *const from_;
  std::unique_ptr<Stream> in_, out_;
};

void add_rows(int gpu, const BenchOptions& options, std::vector<Row>& rows) {
  Link link(gpu, options.size);
  const auto contestant = [&](bool in, bool out) -> Contestant {
    return [&link, in, out] { return seconds_of([&] { link.copy(in, out); }); };
  };
  const std::vector<Seconds> seconds = alternate(
      {[&] { return seconds_of([&] { link.copy_on_host(); }); }, contestant(true, false),
       contestant(false, true), contestant(true, true)},
      options.rounds);
  const auto add = [&](const std::string& name, int64_t bytes, const Seconds& measured) {
    rows.push_back(with_result(
        {{"name", name}, {"gpu", gpu}, {"what", describe_gpu(gpu)}, {"bytes", bytes}},
        measured, bytes, "memcpy", seconds[0]));
  };
  add("memcpy", options.size, seconds[0]);
  add("host to GPU", options.size, seconds[1]);
  add("GPU to host", options.size, seconds[2]);
  add("both at once", 2 * options.size, seconds[3]);
}

}  // namespace

std::vector<Row> bench_transfer(const BenchOptions& options) {
  const int count = num_gpus();
  if (count == 0) {
    throw Error(ExitCode::kEnvironment, "no GPU was found", "zero_launch bench transfer",
                "a machine with a GPU; bench adam and bench comm measure the host");
  }
  std::vector<Row> rows;
  for (int gpu = 0; gpu < count; ++gpu) add_rows(gpu, options, rows);
  return rows;
}

}  // namespace zero::launcher
