#include "launcher/huggingface/exported_files.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "checkpoint/error.h"
#include "tests/checkpoint/support.h"

namespace zero::launcher::exported_files_test {
namespace {

namespace fs = std::filesystem;
using checkpoint::testing::FaultyIo;

class ExportedFiles : public checkpoint::testing::CheckpointTest {
 protected:
  std::string path(const std::string& name) { return run + "/" + name; }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(path(file)).parent_path());
    checkpoint::testing::write_file(path(file), text);
  }
  std::string read(const std::string& file) {
    return fs::exists(path(file)) ? checkpoint::testing::read_file(path(file)) : "";
  }
  std::set<std::string> names(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder)))
      names.insert(entry.path().filename());
    return names;
  }

  // An old model of two files that is replaced by a new one of one.
  void write_both() {
    fs::remove_all(path("model")), fs::remove_all(path("new"));
    for (const std::string name : {"config.json", "model-00001-of-00002.safetensors",
                                   "model-00002-of-00002.safetensors", "mine.txt"})
      write("model/" + name, "old");
    for (const std::string name : {"config.json", "model.safetensors", "vocab.json"})
      write("new/" + name, "new");
  }
};

TEST_F(ExportedFiles, TakeTheTargetsNameWhereThereIsNone) {
  write("new/config.json", "new");
  publish(path("new"), path("model"));
  EXPECT_EQ(read("model/config.json"), "new");
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(ExportedFiles, HaveANameThatAPowerCutDoesNotTake) {
  struct : checkpoint::Io {
    std::string calls;
    int rename(int folder, const char* from, const char* to) override {
      calls += 'r';
      return Io::rename(folder, from, to);
    }
    int fsync(int folder) override {
      calls += 's';
      return Io::fsync(folder);
    }
  } io;
  write("new/config.json", "new");
  publish(path("new"), path("model"), io);
  EXPECT_EQ(io.calls, "rs");
}

TEST_F(ExportedFiles, ReplaceThoseOfAModelAndNothingElse) {
  write_both();
  publish(path("new"), path("model"));
  EXPECT_EQ(names("model"), (std::set<std::string>{"config.json", "mine.txt",
                                                   "model.safetensors", "vocab.json"}));
  EXPECT_EQ(read("model/config.json"), "new");
  EXPECT_EQ(read("model/mine.txt"), "old");
}

// An adapter beside a model would be loaded with it, and neither replaces the other.
TEST_F(ExportedFiles, OfAdaptersLeaveAModelAlone) {
  write_both();
  write("adapter/adapter_config.json", "new");
  write("adapter/adapter_model.safetensors", "new");
  EXPECT_EQ(first_of_others(path("model"), /*of_adapters=*/true), "config.json");
  EXPECT_EQ(first_of_others(path("model"), /*of_adapters=*/false), "");
  EXPECT_EQ(first_of_others(path("adapter"), false), "adapter_config.json");
  EXPECT_EQ(first_of_others(path("adapter"), true), "");
  publish(path("adapter"), path("model"));
  EXPECT_EQ(names("model").size(), 6u);
  EXPECT_EQ(read("model/model-00001-of-00002.safetensors"), "old");
  EXPECT_EQ(read("model/adapter_config.json"), "new");
}

// Wherever it ends: a folder with a config.json has one model, whole.
TEST_F(ExportedFiles, AreNeverHalfOfOneAndHalfOfTheOther) {
  int num_calls = 0, num_seen = 0;
  for (int k = 0; num_calls >= k; ++k, ++num_seen) {
    write_both();
    FaultyIo io;
    io.fail_at = k;
    io.error = EIO;
    io.can_unlink = false;
    try {
      publish(path("new"), path("model"), io);
    } catch (const checkpoint::CheckpointError&) {
    }
    num_calls = io.num_calls;
    const std::string config = read("model/config.json");
    const std::set<std::string> all = names("model");
    EXPECT_EQ(all.contains("mine.txt"), true);
    if (config == "old")
      EXPECT_EQ(all.size(), 4u) << k;
    else if (config == "new")
      EXPECT_THAT(all, ::testing::ElementsAre("config.json", "mine.txt",
                                              "model.safetensors", "vocab.json"))
          << k;
    else
      EXPECT_FALSE(all.contains("config.json")) << k;
  }
  EXPECT_GT(num_seen, 6);
}

TEST_F(ExportedFiles, LeaveAllAsItIsWhereAFileIsALink) {
  write_both();
  write("elsewhere.json", "old");
  fs::create_symlink(path("elsewhere.json"), path("model/vocab.json"));
  EXPECT_THROW(publish(path("new"), path("model")), checkpoint::CheckpointError);
  EXPECT_EQ(names("model").size(), 5u);
  EXPECT_EQ(read("model/config.json"), "old");
  EXPECT_EQ(read("elsewhere.json"), "old");
}

}  // namespace
}  // namespace zero::launcher::exported_files_test
