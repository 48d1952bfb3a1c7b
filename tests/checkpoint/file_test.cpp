#include "checkpoint/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "checkpoint/buffer.h"
#include "read_calls.h"
#include "support.h"

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
  interrupt_reads(6);
  EXPECT_EQ(read_text(Folder(run), "a", 100), text);
  EXPECT_EQ(num_reads_to_interrupt(), 0) << "none was interrupted";
}

// Three blocks and some bytes.
class DirectReadTest : public FileTest {
 protected:
  static constexpr int64_t kBlock = File::kBlockBytes;
  DirectReadTest() {
    for (int i = 0; i < 3 * kBlock + 100; ++i)
      bytes.push_back(static_cast<char>(i % 251));
    write_file(run + "/a", bytes);
  }
  // What read_direct() gives, put `beside` the begin of a block of memory.
  std::string read(File& file, int64_t offset, int64_t num_bytes, int beside = 0) {
    const Buffer out(static_cast<size_t>(num_bytes) + kBlock);
    file.read_direct(out.data() + beside, num_bytes, offset);
    return {out.data() + beside, static_cast<size_t>(num_bytes)};
  }
  std::string bytes;
};

TEST_F(DirectReadTest, GivesTheBytesOfAnyRange) {
  File file = Folder(run).open("a");
  for (const int64_t offset : {int64_t{0}, int64_t{7}, kBlock, kBlock + 512}) {
    for (const int64_t num_bytes :
         {int64_t{0}, int64_t{1}, kBlock, kBlock + 1, 3 * kBlock + 100 - offset}) {
      for (const int beside : {0, 4, 512})
        EXPECT_EQ(read(file, offset, num_bytes, beside), bytes.substr(offset, num_bytes))
            << offset << " " << num_bytes << " " << beside;
    }
  }
}

TEST_F(DirectReadTest, TakesWholeBlocksPastTheCacheAndTheRestThroughIt) {
  File file = Folder(run).open("a");
  const WatchedReads reads;
  read(file, 7, 2 * kBlock);
  EXPECT_EQ(std::ranges::count(reads.calls(), true, &ReadCall::is_direct), 0);
  read(file, kBlock, 2 * kBlock + 100);
  const std::vector<ReadCall> calls = reads.calls();
  if (calls.size() == 2) GTEST_SKIP() << "no direct reads here";
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_TRUE(calls[1].is_direct);
  EXPECT_EQ(calls[1].end, 3 * kBlock);
  EXPECT_FALSE(calls[2].is_direct);
  EXPECT_EQ(calls[2].begin, 3 * kBlock);
}

TEST_F(DirectReadTest, IsTriedOnceWhereItIsRefused) {
  File file = Folder(run).open("a");
  WatchedReads reads;
  reads.refuse_direct();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(file, 0, kBlock), bytes.substr(0, kBlock));
  const std::vector<ReadCall> calls = reads.calls();
  EXPECT_LE(std::ranges::count(calls, true, &ReadCall::is_direct), 1);
  EXPECT_EQ(std::ranges::count(calls, false, &ReadCall::is_direct), 3);
}

TEST_F(DirectReadTest, ContinuesInterruptedAndShortReads) {
  File file = Folder(run).open("a");
  interrupt_reads(6);
  EXPECT_EQ(read(file, 0, 2 * kBlock), bytes.substr(0, 2 * kBlock));
  EXPECT_EQ(num_reads_to_interrupt(), 0) << "none was interrupted";
}

TEST_F(DirectReadTest, SaysThatAFileIsCutOff) {
  File file = Folder(run).open("a");
  for (const int64_t offset : {int64_t{0}, 4 * kBlock})
    EXPECT_NE(error_of([&] { read(file, offset, 4 * kBlock); }).find("is cut off"),
              std::string::npos);
}

TEST_F(DirectReadTest, TheCacheIsAskedForWholeRanges) {
  const File file = Folder(run).open("a");
  for (const bool is_old : {false, true}) {
    pretend_an_old_system(is_old);
    EXPECT_TRUE(file.is_cached(0, std::ssize(bytes))) << "it was just written";
    EXPECT_TRUE(file.is_cached(kBlock + 7, 1));
    EXPECT_FALSE(file.is_cached(2 * kBlock, 4 * kBlock)) << "there is no such block";
  }
  pretend_an_old_system(false);
  const WatchedReads reads;  // nothing is cached
  EXPECT_FALSE(file.is_cached(kBlock + 7, 1));
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
