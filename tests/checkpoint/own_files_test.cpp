#include "checkpoint/own_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "checkpoint/error.h"
#include "checkpoint/own_folder.h"
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

TEST_F(OwnFiles, AWriteThatFailsLeavesTheOldOne) {
  write_file(run + "/page", "ours: old");
  const auto fail = [](File&) { throw CheckpointError("page", "", "no idea"); };
  EXPECT_THAT(error_of([&] { replace_file(Folder(run), "page", "ours: ", fail); }),
              HasSubstr("no idea"));
  EXPECT_EQ(read_file(run + "/page"), "ours: old");
  EXPECT_EQ(Folder(run).names().size(), 1u);
}

TEST_F(OwnFiles, AFileThatComesMeanwhileStays) {
  const auto write = [&](File&) { write_file(run + "/page", "theirs"); };
  EXPECT_THAT(error_of([&] { replace_file(Folder(run), "page", "ours: ", write); }),
              HasSubstr("zero has not written"));
  EXPECT_EQ(read_file(run + "/page"), "theirs");
  EXPECT_EQ(Folder(run).names().size(), 1u);
}

TEST_F(OwnFiles, AFileOfNothingButItsBeginningIsOurs) {
  write_file(run + "/page", "ours: ");
  replace("page");
  EXPECT_EQ(read_file(run + "/page"), "ours: new");
}

class NoExchangeIo : public Io {
 public:
  explicit NoExchangeIo(int error) : error_(error) {}
  int exchange(int, const char*, const char*) override {
    errno = error_;
    return -1;
  }

 private:
  const int error_;
};

TEST_F(OwnFiles, NotEveryFileSystemExchangesNames) {
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    NoExchangeIo io(error);
    EXPECT_FALSE(exchange_ours(Folder(run), "a", "b", io)) << error;
  }
  NoExchangeIo broken(EIO);
  EXPECT_THAT(error_of([&] { exchange_ours(Folder(run), "a", "b", broken); }),
              HasSubstr("cannot exchange with a"));
}

class Removal : public OwnFiles {
 protected:
  // Things of every kind that are no file.
  Removal() {
    fs::create_directories(run + "/folder/deep");
    write_file(run + "/keep", "keep");
    fs::create_symlink("keep", run + "/link");
    fs::create_symlink("nowhere", run + "/dangling");
    EXPECT_EQ(mkfifo((run + "/pipe").c_str(), 0600), 0);
  }
  const std::vector<std::string> others = {"folder", "link", "dangling", "pipe"};
};

TEST_F(Removal, IsForRegularFiles) {
  const Folder folder(run);
  write_file(run + "/mine", "");
  remove_file(folder, "mine");
  const auto before = folder.names();
  EXPECT_FALSE(folder.has("mine"));
  for (const std::string& name : others)
    EXPECT_THAT(error_of([&] { remove_file(folder, name); }),
                HasSubstr(run + "/" + name));
  EXPECT_EQ(folder.names(), before);
}

TEST_F(Removal, TakesOurFilesOfAFolderAndTheFolderWithThem) {
  const auto belongs = [](std::string_view name) { return name == "a" || name == "b"; };
  const auto remove = [&](const std::string& name) {
    return remove_ours(Folder(run), name, belongs);
  };
  write_file(run + "/folder/a", "");
  fs::create_symlink("../keep", run + "/folder/b");
  write_file(run + "/folder/theirs", "");
  EXPECT_FALSE(remove("folder"));
  EXPECT_THAT(files_of(run + "/folder"), ::testing::ElementsAre("b", "deep", "theirs"));
  for (const char* name : {"link", "dangling", "pipe"}) EXPECT_FALSE(remove(name));
  EXPECT_EQ(read_file(run + "/keep"), "keep");

  fs::create_directory(run + "/mine");
  write_file(run + "/mine/a", "");
  EXPECT_TRUE(remove("mine"));
  EXPECT_FALSE(fs::exists(run + "/mine"));
}

TEST_F(Removal, OfAnOwnFolderTakesAllAndFollowsNoLink) {
  {
    const OwnFolder mine(run, "mine");
    EXPECT_EQ(mine.path(), run + "/mine");
    fs::create_directories(mine.path() + "/a/b");
    write_file(mine.path() + "/a/b/file", "");
    fs::create_directory_symlink("../folder", mine.path() + "/link");
  }
  EXPECT_FALSE(fs::exists(run + "/mine"));
  EXPECT_TRUE(fs::exists(run + "/folder/deep"));
}

TEST_F(Removal, AnOwnFolderIsNewAndMayStay) {
  EXPECT_THAT(error_of([&] { OwnFolder(run, "folder"); }), HasSubstr(run + "/folder"));
  EXPECT_TRUE(fs::exists(run + "/folder/deep"));
  { OwnFolder(run, "mine").keep(); }
  EXPECT_TRUE(fs::exists(run + "/mine"));
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
