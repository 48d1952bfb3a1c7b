// The device for GPUs, on one.
#include "engine/device/gpu.h"
#include "tests/engine/device_suite.h"

namespace zero::device_cuda_test {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTest,
                         ::testing::Values(DeviceMaker{
                             "cuda",
                             [](uint64_t chaos_seed) {
                               return make_gpu(0, {.chaos_seed = chaos_seed});
                             }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace zero::device_cuda_test
