#include <filesystem>

#include "support.h"

// People open our files with h5py, from wherever they stand.
namespace zero::checkpoint::testing::h5py_test {
namespace {

class H5pyTest : public CheckpointTest {
 protected:
  void SetUp() override {
    if (!has_h5py()) GTEST_SKIP() << "h5py is not installed";
  }

  // All of checkpoint.h5 as h5py sees it: raw bytes in files named by kind and number.
  void expect_h5py_sees(const std::string& path, const TestModel& model) {
    std::string program = "f = h5py.File(path + '/checkpoint.h5')\n";
    for (size_t i = 0; i < model.size(); ++i) {
      const auto& tensor = model[i];
      const Shape visible = tensor.shape.empty() ? Shape{1} : tensor.shape;
      program +=
          "d = f['/" + std::string(name_of(tensor.kind)) + "/" + tensor.fqn + "']\n";
      program += "assert list(d.shape) == [";
      for (const int64_t dim : visible) program += std::to_string(dim) + ",";
      program += "], d.shape\n";
      if (tensor.dtype == DType::kBf16) {  // comes as float32: its upper half
        program += "assert d.dtype == np.float32\n";
        program += "v = (d[()].view(np.uint32) >> 16).astype(np.uint16)\n";
      } else {
        program += "v = d[()]\n";
      }
      program += "v.tofile(path + '/../" + std::to_string(i) + ".raw')\n";
    }
    ASSERT_EQ(python(path, program), "");
    for (size_t i = 0; i < model.size(); ++i) {
      const std::string raw = read_file(path + "/../" + std::to_string(i) + ".raw");
      EXPECT_EQ(raw, std::string(model[i].bytes.begin(), model[i].bytes.end()))
          << name_of(model[i].kind) << "/" << model[i].fqn;
    }
  }
};

// Values that survive the way through float32: no signalling NaNs.
TestModel plain_model() {
  TestModel model = small_model();
  for (auto& tensor : model) {
    if (tensor.dtype != DType::kBf16) continue;
    for (size_t i = 1; i < tensor.bytes.size(); i += 2) {
      tensor.bytes[i] = static_cast<char>(tensor.bytes[i] & 0xBF);
    }
  }
  return model;
}

TEST_F(H5pyTest, SeesFullTensorsOfAnyWorldSize) {
  const TestModel model = plain_model();
  for (const int world_size : {1, 2, 3, 4, 7}) {
    expect_h5py_sees(save(model, {.step = world_size, .world_size = world_size}), model);
  }
}

TEST_F(H5pyTest, SeesThemWhenTheFolderHasMoved) {
  const TestModel model = plain_model();
  std::filesystem::rename(save(model), run + "/elsewhere");
  expect_h5py_sees(run + "/elsewhere", model);
}

TEST_F(H5pyTest, SeesAliases) {
  const auto path = save(plain_model(), {.aliases = {{"head", "wte.weight"}}});
  EXPECT_EQ(python(path,
                   "f = h5py.File(path + '/checkpoint.h5')\n"
                   "assert f['params/head'] == f['params/wte.weight']\n"),
            "");
}

TEST_F(H5pyTest, SeesShardsAsFlatPieces) {
  const auto path = save(plain_model(), {.world_size = 2});
  EXPECT_EQ(
      python(
          path,
          "for rank in range(2):\n"
          "  f = h5py.File(path + f'/shard_{rank:05}_of_00002.h5')\n"
          "  f.visititems(lambda name, d: print(name, d.shape)\n"
          "               if name in ('buffers/mask', 'params/wte.weight') else None)\n"),
      "buffers/mask (4, 4)\nparams/wte.weight (407,)\n");
}

TEST_F(H5pyTest, AMissingShardShowsAsNan) {
  const auto path = save({make_tensor(Kind::kParam, "w", DType::kFp32, {4})});
  std::filesystem::remove(path + "/" + shard_file(1, 2));
  EXPECT_EQ(python(path,
                   "v = h5py.File(path + '/checkpoint.h5')['params/w'][()]\n"
                   "print(np.isnan(v)[2:].all())\n"),
            "True\n");
}

TEST_F(H5pyTest, NamesAreUtf8) {
  const auto path = save({make_tensor(Kind::kParam, "w", DType::kFp32, {4})});
  EXPECT_EQ(python(path,
                   "group = h5py.File(path + '/checkpoint.h5')['params']\n"
                   "link = group.id.links.get_info(b'w')\n"
                   "print(link.cset == h5py.h5t.CSET_UTF8)\n"),
            "True\n");
}

TEST_F(H5pyTest, HalvesAreFloats) {
  TestModel model = {
      {Kind::kParam, "b", DType::kBf16, {2}, {'\x80', '\x3f', '\x20', '\xc1'}},
      {Kind::kParam, "h", DType::kFp16, {2}, {'\x00', '\x3c', '\x00', '\xc0'}}};
  const auto path = save(model);
  EXPECT_EQ(python(path,
                   "f = h5py.File(path + '/checkpoint.h5')\n"
                   "print(f['params/b'][()], f['params/h'][()], f['params/h'].dtype)\n"),
            "[  1. -10.] [ 1. -2.] float16\n");
}

}  // namespace
}  // namespace zero::checkpoint::testing::h5py_test
