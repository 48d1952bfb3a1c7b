#include "launcher/process/kernel_caches.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace zero::launcher::kernel_caches_test {
namespace {

constexpr char kOneDnn[] = "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
               kOlder[] = "DNNL_PRIMITIVE_CACHE_CAPACITY",
               kBinding[] = "LRU_CACHE_CAPACITY";

class KernelCaches : public ::testing::Test {
 protected:
  KernelCaches() { clear(); }
  ~KernelCaches() override { clear(); }
  static void clear() {
    for (const char* name : {kOneDnn, kOlder, kBinding}) unsetenv(name);
  }
  static std::string value(const char* name) {
    const char* const found = std::getenv(name);
    return found ? found : "";
  }
};

// One that is left alone keeps what the other gives up.
TEST_F(KernelCaches, BothAreBounded) {
  bound_kernel_caches();
  EXPECT_EQ(value(kOneDnn), "128");
  EXPECT_EQ(value(kBinding), "128");
}

TEST_F(KernelCaches, WhatIsSetStays) {
  setenv(kBinding, "7", 1);
  bound_kernel_caches();
  EXPECT_EQ(value(kBinding), "7");
  EXPECT_EQ(value(kOneDnn), "128");
  clear();
  setenv(kOneDnn, "9", 1);
  bound_kernel_caches();
  EXPECT_EQ(value(kOneDnn), "9");
  EXPECT_EQ(value(kBinding), "128");
  clear();
  setenv(kOlder, "5", 1);
  bound_kernel_caches();
  EXPECT_EQ(value(kOneDnn), "") << "which would beat the older name";
}

TEST_F(KernelCaches, KernelsAreOfProductsIn16Bits) {
  EXPECT_EQ(kernel_cache_bytes(4, true), 0);
  const int64_t growing = kernel_cache_bytes(2, true);
  EXPECT_TRUE(growing == 0 || growing >= 64 << 20);
  EXPECT_EQ(kernel_cache_bytes(2, false), growing / 4);
}

}  // namespace
}  // namespace zero::launcher::kernel_caches_test
