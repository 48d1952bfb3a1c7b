#include "checkpoint/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "support.h"

namespace {

// Of this thread's next reads; each interrupted one is followed by a short one.
thread_local int num_interrupted_reads = 0;

}  // namespace

// Stands before the C library's: no signal interrupts a read of a regular file, but on
// some network file systems.
extern "C" ssize_t pread(int file, void* out, size_t bytes, off_t offset) {
  if (num_interrupted_reads > 0 && num_interrupted_reads-- % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  if (num_interrupted_reads > 0) bytes = std::min<size_t>(bytes, 5);
  return ::syscall(SYS_pread64, file, out, bytes, offset);
}

namespace zero::checkpoint::testing::file_test {
namespace {

class FileTest : public CheckpointTest {
 protected:
  const std::string text = "the quick brown fox jumps over the lazy dog";
};

TEST_F(FileTest, ShortAndInterruptedWritesAreContinued) {
  FaultyIo io;
  io.short_writes = 5;
  io.interrupt_every = 2;
  write_text(Folder(run), "a", text, io);
  EXPECT_EQ(read_file(run + "/a"), text);
}

TEST_F(FileTest, ShortAndInterruptedReadsAreContinued) {
  write_file(run + "/a", text);
  num_interrupted_reads = 6;
  EXPECT_EQ(read_text(Folder(run), "a", 100), text);
  EXPECT_EQ(num_interrupted_reads, 0) << "none was interrupted";
}

TEST_F(FileTest, AFullDiskSaysWhatIsNeeded) {
  FaultyIo io;
  io.fail_at = 1;  // after create
  io.error = ENOSPC;
  const std::string error = error_of([&] { write_text(Folder(run), "a", text, io); });
  EXPECT_NE(error.find(run + "/a"), std::string::npos) << error;
  EXPECT_NE(error.find("needs 43 bytes"), std::string::npos) << error;
  EXPECT_NE(error.find("No space left"), std::string::npos) << error;
}

TEST_F(FileTest, AQuotaThatIsFullHasTheCureOfADisk) {
  for (const int error : {ENOSPC, EDQUOT})
    EXPECT_THAT(error_of([&] { throw_errno("a", "write", error); }),
                ::testing::EndsWith("; free some space, or keep fewer checkpoints"));
}

// As some file systems tell that there is no room.
class FullOnceIo : public Io {
 public:
  ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) override {
    return std::exchange(is_full_, false) ? 0 : Io::pwrite(file, data, bytes, offset);
  }

 private:
  bool is_full_ = true;
};

TEST_F(FileTest, AWriteThatTakesNoBytesIsNotTriedAgain) {
  FullOnceIo io;
  const std::string error = error_of([&] { write_text(Folder(run), "a", text, io); });
  EXPECT_NE(error.find("No space left"), std::string::npos) << error;
}

TEST_F(FileTest, AFailedFsyncIsNotTriedAgain) {
  FaultyIo io;
  io.fail_at = 2;
  io.error = EIO;
  io.fail_after = false;
  EXPECT_THROW(write_text(Folder(run), "a", text, io), CheckpointError);
  EXPECT_EQ(io.num_calls, 3);
}

TEST_F(FileTest, AnInterruptedFsyncIsTriedAgain) {
  FaultyIo io;
  io.interrupt_every = 2;  // a write, then the fsync
  write_text(Folder(run), "a", text, io);
  EXPECT_EQ(io.num_calls, 3) << "create, write and an fsync that was not interrupted";
}

TEST_F(FileTest, OnlyRegularFilesAreOpened) {
  write_file(run + "/real", text);
  std::filesystem::create_symlink("real", run + "/link");
  std::filesystem::create_symlink("/dev/zero", run + "/device");
  std::filesystem::create_directory(run + "/folder");
  ASSERT_EQ(::mkfifo((run + "/pipe").c_str(), 0644), 0);
  const Folder folder(run);
  EXPECT_NO_THROW(folder.open("real"));
  for (const char* name : {"link", "device", "folder", "pipe", "missing"}) {
    EXPECT_THROW(folder.open(name), CheckpointError) << name;
    EXPECT_THROW(folder.size_of(name), CheckpointError) << name;
  }
}

TEST_F(FileTest, ReadingPastTheEndIsAnError) {
  write_file(run + "/a", text);
  char out[100];
  const std::string error = error_of([&] { Folder(run).open("a").read(out, 44, 0); });
  EXPECT_NE(error.find("is cut off"), std::string::npos) << error;
}

TEST_F(FileTest, ATextHasSoManyBytesAtMost) {
  write_file(run + "/a", text);
  EXPECT_EQ(read_text(Folder(run), "a", 43), text);
  EXPECT_EQ(error_of([&] { read_text(Folder(run), "a", 42); }),
            run + "/a: has 43 bytes, the most is 42");
}

TEST_F(FileTest, WhatCannotBeExaminedIsNotMissing) {
  const std::string name(300, 'x');  // longer than any file's
  EXPECT_EQ(error_of([&] { Folder(run).size_of(name); }),
            run + "/" + name + ": cannot examine: File name too long");
  EXPECT_EQ(error_of([&] { Folder(run).size_of("a"); }), run + "/a: is missing");
}

TEST_F(FileTest, PathsAreSplit) {
  EXPECT_EQ(split_path("a/b/c//").folder, "a/b");
  EXPECT_EQ(split_path("a/b/c//").name, "c");
  EXPECT_EQ(split_path("c").folder, ".");
  EXPECT_EQ(split_path("/c").folder, "/");
}

}  // namespace
}  // namespace zero::checkpoint::testing::file_test
