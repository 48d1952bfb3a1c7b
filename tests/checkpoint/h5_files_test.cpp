#include "checkpoint/h5_files.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace zero::checkpoint::h5_files_test {
namespace {

int64_t own_bytes() { return 1024 * read_field("/proc/self/status", "RssAnon:").value(); }

std::vector<StoredTensor> many_tensors(int count) {
  std::vector<StoredTensor> tensors(count);
  for (int i = 0; i < count; ++i) {
    tensors[i].fqn = "layers." + std::to_string(i) + ".weight";
    tensors[i].shape = {8, 8};
    tensors[i].pieces = {{"shard_0_of_1.h5", 0, 256L * i, 256, {}}};
  }
  return tensors;
}

// A save must not need memory that no plan has.
TEST(H5Files, ManyTensorsTakeLittleMemory) {
  const int64_t first = make_virtual_image(many_tensors(10), {}).size_bytes();
  const int64_t before = own_bytes();
  const File image = make_virtual_image(many_tensors(3000), {});
  EXPECT_GT(image.size_bytes(), 100 * first);
  EXPECT_LT(own_bytes() - before, 10 << 20);
}

}  // namespace
}  // namespace zero::checkpoint::h5_files_test
