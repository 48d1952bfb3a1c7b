#include "checkpoint/own_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "support.h"

namespace zero::checkpoint::testing::own_files_test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class OwnFiles : public CheckpointTest {
 protected:
  OwnFiles() { fs::create_directories(run); }
  void replace(const std::string& name) {
    replace_text(Folder(run), name, "ours: new", "ours: ");
  }
};

TEST_F(OwnFiles, ANewFileIsMadeAndOurOwnIsReplaced) {
  replace("page");
  EXPECT_EQ(read_file(run + "/page"), "ours: new");
  write_file(run + "/page", "ours: old and longer than that");
  replace("page");
  EXPECT_EQ(read_file(run + "/page"), "ours: new");
  EXPECT_EQ(Folder(run).names().size(), 1u);
}

TEST_F(OwnFiles, AnythingElseStaysAndIsNamed) {
  write_file(run + "/theirs", "theirs");
  write_file(run + "/short", "our");
  fs::create_directory(run + "/folder");
  fs::create_symlink("theirs", run + "/link");
  ASSERT_EQ(mkfifo((run + "/pipe").c_str(), 0600), 0);
  const auto before = Folder(run).names();
  for (const char* name : {"theirs", "short", "folder", "link", "pipe"})
    EXPECT_THAT(error_of([&] { replace(name); }), HasSubstr(run + "/" + name));
  EXPECT_EQ(Folder(run).names(), before);
  EXPECT_EQ(read_file(run + "/theirs"), "theirs");
  EXPECT_TRUE(fs::is_symlink(run + "/link"));
}

TEST_F(OwnFiles, AFileThatIsSetAsideGetsAFreeName) {
  write_file(run + "/log", "a");
  write_file(run + "/log.1", "b");
  EXPECT_EQ(set_file_aside(Folder(run), "log"), "log.2");
  EXPECT_EQ(read_file(run + "/log.2"), "a");
  EXPECT_EQ(read_file(run + "/log.1"), "b");
}

}  // namespace
}  // namespace zero::checkpoint::testing::own_files_test
