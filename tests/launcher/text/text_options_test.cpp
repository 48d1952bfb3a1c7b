#include "launcher/text/text_options.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/launcher/data/data_files.h"
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

class TokenizerOfAFolder : public data::DataFiles {};

TEST_F(TokenizerOfAFolder, NamesThePathThatCannotBeLookedUp) {
  std::filesystem::create_symlink(path("loop"), path("loop"));
  for (const std::string& folder : {path("loop"), path(std::string(300, 'a'))}) {
    Settings settings;
    settings.tokenizer = folder;
    try {
      find_tokenizer(settings);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(error.where(), folder + "/tokenizer.json");
      EXPECT_THAT(error.cure(), ::testing::HasSubstr("--tokenizer DIR"));
    }
  }
}

}  // namespace
}  // namespace zero::launcher::text_options_test
