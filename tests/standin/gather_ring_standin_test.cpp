// A ring in a GPU's memory, when the GPU refuses what the ring asks of it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/device/cuda/cuda_device.h"
#include "engine/weights/gather_ring.h"
#include "tests/standin/standin.h"
#include "zero/errors.h"

namespace zero::gather_ring_standin_test {
namespace {

TEST(GatherRingOnAGpu, ASlotWhoseReadersAreNotKnownIsNotFilledAgain) {
  standin::reset();
  const auto device = make_cuda_device(0, {});
  const auto stream = device->make_stream("communication");
  const auto comm = make_lone_collectives();
  const std::array<float, 16> shard{};
  const Event updated;
  const auto source = [&](int unit) {
    return GatherSource{unit,
                        {{shard.data(), sizeof shard, "unit"}},
                        [&]() -> const Event& { return updated; }};
  };
  const SlotPlan one_slot = {{{sizeof shard, 1}}, {0, 0}};
  GatherRing ring(*device, *comm, *stream, "ring", one_slot);
  ring.acquire(source(0));
  standin::fail_next("cudaEventRecord", cudaErrorUnknown);
  ring.release(0);  // from a destructor, as a rule
  EXPECT_THROW(ring.acquire(source(1)), Error);
}

}  // namespace
}  // namespace zero::gather_ring_standin_test
