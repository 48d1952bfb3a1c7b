#include "checkpoint/h5_names.h"

#include <gmock/gmock.h>
#include <hdf5.h>

#include "base/names.h"
#include "support.h"

namespace zero::checkpoint::testing::h5_names_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class H5NamesTest : public CheckpointTest {
 protected:
  // A file with a value at each of these paths.
  H5Names names(const std::vector<std::string>& paths,
                const std::vector<Rename>& renames = {}) {
    const std::string path = run + "/weights.h5";
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate(H5S_SCALAR);
    H5Pset_create_intermediate_group(links, 1);
    const float value = 1;
    for (const std::string& name : paths) {
      const hid_t dataset = H5Dcreate2(file, name.c_str(), H5T_IEEE_F32LE, space, links,
                                       H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
      H5Dclose(dataset);
    }
    H5Sclose(space), H5Pclose(links), H5Fclose(file);
    return name_datasets(H5Source(path), renames);
  }
};

TEST_F(H5NamesTest, APathHasDotsForItsGroups) {
  EXPECT_THAT(names({"h/0/attn/weight", "wte.weight"}).paths,
              ElementsAre(Pair("h.0.attn.weight", "h/0/attn/weight"),
                          Pair("wte.weight", "wte.weight")));
  EXPECT_THAT(error_of([&] {
                names({"h.0/w", "h/0.w"});
              }),
              HasSubstr("h/0.w: its name is h.0.w, as that of h.0/w"));
}

TEST_F(H5NamesTest, GroupsOfOursAreNoNames) {
  const H5Names ours = names({"params/w", "buffers/b", "exp_avg/w", "other/w"});
  EXPECT_THAT(ours.paths, ElementsAre(Pair("b", "buffers/b"), Pair("other.w", "other/w"),
                                      Pair("w", "params/w")));
  EXPECT_THAT(ours.ignored, ElementsAre("exp_avg/w"));
  // Others may have a module of that name.
  EXPECT_THAT(names({"sum/w", "buffers/b"}).paths,
              ElementsAre(Pair("buffers.b", "buffers/b"), Pair("sum.w", "sum/w")));
}

TEST_F(H5NamesTest, TheFirstRenameThatMatchesCounts) {
  const H5Names renamed =
      names({"model/0/gamma", "model/1/w", "head"}, {{"model.*.gamma", "h.*.weight"},
                                                     {"model.*", "h.*"},
                                                     {"*.gamma", "*.beta"},
                                                     {"nothing", "all"}});
  EXPECT_THAT(renamed.paths,
              ElementsAre(Pair("h.0.weight", "model/0/gamma"), Pair("h.1.w", "model/1/w"),
                          Pair("head", "head")));
  EXPECT_THAT(renamed.unused, ElementsAre(2, 3));
}

TEST(Renamed, EachStarIsWhatTheOneInItsPlaceStandsFor) {
  EXPECT_EQ(renamed("*.*", "a.b.c", "*/*"), "a/b.c");
  EXPECT_EQ(renamed("layer_?.*", "layer_0.w", "h.*"), "h.w");
  EXPECT_EQ(renamed("a**", "abc", "*-*"), "-bc");
  EXPECT_EQ(renamed("w*", "w", "v*"), "v");
  EXPECT_EQ(renamed("w", "w", "v"), "v");
  EXPECT_EQ(renamed("w", "x", "v"), std::nullopt);
  EXPECT_EQ(renamed("*b", "abab", "*c"), "abac");
}

}  // namespace
}  // namespace zero::checkpoint::testing::h5_names_test
