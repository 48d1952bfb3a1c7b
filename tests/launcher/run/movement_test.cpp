#include "launcher/run/movement.h"

#include <gtest/gtest.h>

namespace zero::launcher::movement_test {
namespace {

TEST(Movement, TellsApartWhatHadNoGradientAndWhatIsStuck) {
  std::vector<ParamMovement> all{{"a", true, true}, {"b", false, false}};
  EXPECT_EQ(movement_line({all[0]}), "masters fp32, 1 of 1 trainable parameters moved");
  all.push_back({"c", true, false});
  all.push_back({"decays", false, true});
  EXPECT_EQ(movement_line(all),
            "masters fp32, 2 of 4 trainable parameters moved; no gradient but 0: b; "
            "steps of 0, or too small for fp32: c");
  EXPECT_EQ(movement_record(all).dump(),
            R"({"trained":4,"moved":2,"without_gradient":["b"],"stuck":["c"]})");
}

TEST(Movement, NamesAFewOfMany) {
  const std::vector<ParamMovement> all(9, {"w", true, false});
  EXPECT_EQ(movement_line(all),
            "masters fp32, 0 of 9 trainable parameters moved; steps of 0, or too small "
            "for fp32: w, w, w, w and 5 more");
}

}  // namespace
}  // namespace zero::launcher::movement_test
