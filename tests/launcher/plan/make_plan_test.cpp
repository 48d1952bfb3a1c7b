// Plans of a model that is there.
#include <gtest/gtest.h>

#include "examples/models/families.h"
#include "launcher/plan/run_plan.h"
#include "launcher/process/kernel_caches.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_model.h"

namespace zero::launcher::make_plan_test {
namespace {

// Each prompt has a length of its own.
TEST(MakePlan, CountsMoreKernelsWhereSamplesAreDrawn) {
  if (kernel_cache_bytes(2, true) == 0) GTEST_SKIP() << "nothing is compiled in 16 bits";
  const ModelFamily family = gpt2_family();
  Settings settings;
  settings.dtype = "bf16";
  settings.vocab = 256;
  const ModelShape shape = new_shape(family, settings);
  const auto model = make_deferred(family, shape);
  for (const int64_t every : {0, 10}) {
    settings.sample_every = every;
    EXPECT_EQ(make_plan({settings, shape}, family, *model).kernels,
              kernel_cache_bytes(2, every > 0));
  }
}

}  // namespace
}  // namespace zero::launcher::make_plan_test
