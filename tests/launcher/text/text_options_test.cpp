#include "launcher/text/text_options.h"

#include <gmock/gmock.h>

#include "zero/errors.h"

namespace zero::launcher::text_options_test {
namespace {

TEST(FindTokenizer, TakesTheOneThatIsNamed) {
  Settings settings;
  settings.tokenizer = "no/such";
  try {
    find_tokenizer(settings);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("does not exist"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--tokenizer DIR"));
  }
  settings.bytes = true;
  EXPECT_EQ(find_tokenizer(settings), "");
}

}  // namespace
}  // namespace zero::launcher::text_options_test
