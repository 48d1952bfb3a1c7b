#include "checkpoint/h5_source.h"

#include <gmock/gmock.h>
#include <hdf5.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "support.h"

// Files that others wrote, some to do harm.
namespace zero::checkpoint::testing::h5_source_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class H5SourceTest : public CheckpointTest {
 protected:
  std::string refusal(const std::string& file) {
    return error_of([&] { H5Source source(run + "/" + file); });
  }
  std::vector<float> read(const std::string& file, const std::string& dataset,
                          int64_t begin, int64_t count) {
    std::vector<float> values(count);
    H5Source(run + "/" + file).read(dataset, begin, values);
    return values;
  }
};

TEST_F(H5SourceTest, EveryTypeOfOursIsReadBitForBit) {
  const TestModel model = small_model();
  const std::string file = save(model, {.world_size = 1}) + "/shard_00000_of_00001.h5";
  H5Source source(file);
  int num_read = 0;
  for (const TestTensor& tensor : model) {
    const std::string name = std::string(name_of(tensor.kind)) + "/" + tensor.fqn;
    if (!source.datasets().contains(name)) continue;  // it is empty
    const TensorType& is = source.datasets().at(name);
    EXPECT_EQ(size_of(is.dtype), size_of(tensor.dtype)) << name;
    EXPECT_EQ(is_floating(is.dtype), is_floating(tensor.dtype)) << name;
    std::vector<char> bytes(tensor.bytes.size());
    source.read_stored(name, 0, checked_numel(tensor.shape).value(), bytes.data());
    EXPECT_EQ(bytes, tensor.bytes) << name;
    ++num_read;
  }
  EXPECT_GT(num_read, 15);
  EXPECT_EQ(source.datasets().at("params/half").dtype, DType::kBf16);
  EXPECT_THAT(error_of([&] { source.read_stored("params/half", 100, 9, nullptr); }),
              HasSubstr("it has 108 values alone"));
}

class H5OfPython : public H5SourceTest {
 protected:
  void SetUp() override {
    if (!has_h5py()) GTEST_SKIP() << "h5py is not installed";
  }
};

TEST_F(H5OfPython, AnyLayoutAndOrderOfBytesIsReadInAnyRange) {
  ASSERT_EQ(python(run,
                   "v = np.arange(7 * 11 * 5).reshape(7, 11, 5)\n"
                   "f = h5py.File(path + '/a.h5', 'w')\n"
                   "for t in ['<f2', '>f2', '<f4', '>f4', '<f8', '>f8']:\n"
                   "    f['plain' + t] = v.astype(t)\n"
                   "f.create_dataset('packed', data=v.astype('f4'), chunks=(2, 3, 4),\n"
                   "                 compression='gzip', shuffle=True, fletcher32=True)\n"
                   "f['again'] = h5py.SoftLink('/packed')\n"
                   "f.create_group('h')['up'] = h5py.SoftLink('/again')\n"),
            "");
  H5Source source(run + "/a.h5");
  EXPECT_EQ(source.datasets().size(), 9);
  for (const auto& [name, dataset] : source.datasets()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(dataset.shape, (Shape{7, 11, 5}));
    for (const auto& [begin, count] : std::vector<std::pair<int, int>>{
             {0, 385}, {3, 1}, {17, 200}, {384, 1}, {9, 0}}) {
      std::vector<float> expected(count), values(count);
      std::iota(expected.begin(), expected.end(), static_cast<float>(begin));
      source.read(name, begin, values);
      EXPECT_EQ(values, expected);
    }
  }
}

TEST_F(H5OfPython, SoftLinksLeadThroughAndToGroups) {
  ASSERT_EQ(python(run,
                   "f = h5py.File(path + '/a.h5', 'w')\n"
                   "f['g/h/w'] = np.arange(3, dtype='f4')\n"
                   "f['g/h/again'] = h5py.SoftLink('./w')\n"
                   "f['all'] = h5py.SoftLink('/g')\n"
                   "f['on'] = h5py.SoftLink('all/./h//w')\n"
                   "f.create_group('none'); f['empty'] = h5py.SoftLink('none')\n"
                   "assert list(f['all/h/again']) == list(f['on']) == [0, 1, 2]\n"),
            "");
  std::vector<std::string> names;
  for (const auto& [name, dataset] : H5Source(run + "/a.h5").datasets())
    names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("all/h/again", "all/h/w", "g/h/again",
                                            "g/h/w", "on"));
  for (const char* name : {"all/h/again", "on"})
    EXPECT_EQ(read("a.h5", name, 0, 3), (std::vector<float>{0, 1, 2})) << name;
}

TEST_F(H5OfPython, ValuesAreRoundedToNearest) {
  ASSERT_EQ(python(run,
                   "f = h5py.File(path + '/a.h5', 'w')\n"
                   "f['d'] = np.array([0.1, 1e300, -1e-60, 1 + 2**-24 + 2**-50])\n"
                   "f['half'] = np.array([2**-24, -65504, np.inf], 'f2')\n"
                   "f['scalar'] = 2.5\n"
                   "f['long'] = np.arange(300000, dtype='f4')\n"
                   "f['none'] = np.zeros((0, 3), 'f4')\n"
                   "f['deep'] = np.ones((1,) * 32, 'f4')\n"
                   "f['integers'] = np.arange(3)\n"),
            "");
  EXPECT_EQ(read("a.h5", "d", 0, 4),
            (std::vector<float>{0.1f, INFINITY, -0.0f, std::nextafter(1.0f, 2.0f)}));
  EXPECT_EQ(read("a.h5", "half", 0, 3), (std::vector<float>{0x1p-24f, -65504, INFINITY}));
  EXPECT_EQ(read("a.h5", "long", 5, 299995).back(), 299999);
  EXPECT_EQ(read("a.h5", "scalar", 0, 1), std::vector<float>{2.5f});
  EXPECT_EQ(read("a.h5", "none", 0, 0), std::vector<float>{});
  EXPECT_EQ(read("a.h5", "deep", 0, 1), std::vector<float>{1});
  EXPECT_THAT(error_of([&] { read("a.h5", "integers", 0, 3); }),
              HasSubstr("integers: it holds int64"));
}

TEST_F(H5OfPython, WhatIsNotPlainIsRefusedByItsPath) {
  struct Case {
    std::string name, program;  // that adds to the file f
    std::vector<std::string> told;
  };
  const std::vector<Case> cases = {
      {"storage",
       "f.create_dataset('w', (4,), 'f4', external=[('/dev/zero', 0, 16)])",
       {"w: ", "another file (external storage)", "copy the values"}},
      {"link",
       "f.create_group('g')['w'] = h5py.ExternalLink('no.h5', '/x')",
       {"g/w: ", "an external link, to /x of no.h5", "copy the values"}},
      {"way",
       "f['h'] = h5py.SoftLink('/g/w/x'); f.create_group('g/w')",
       {"h: ", "a soft link to g/w/x, which is no dataset or group of this file"}},
      {"circle",
       "f['a'] = h5py.SoftLink('/b'); f['b'] = h5py.SoftLink('a')",
       {"a: ", "leads in a circle"}},
      {"root",
       "f.create_group('g')['up'] = h5py.SoftLink('/')",
       {"g/up: ", "in a circle"}},
      {"groups",
       "g = f.create_group('g'); g['g'] = g",
       {"g/g/g/", "more than 32 deep, or in a circle"}},
      {"virtual",
       "l = h5py.VirtualLayout((4,), 'f4')\n"
       "l[:] = h5py.VirtualSource('no.h5', 'x', (4,))\n"
       "f.create_virtual_dataset('w', l)",
       {"w: ", "a virtual dataset", "--init-from DIR"}},
      {"growing",
       "l = h5py.VirtualLayout((4, 2), 'f4', (None, 2))\n"
       "l[h5py.h5s.UNLIMITED:] = h5py.VirtualSource('no.h5', 'x', (4, 2), "
       "maxshape=(None, "
       "2))[h5py.h5s.UNLIMITED:]\n"
       "f.create_virtual_dataset('w', l)",
       {"w: ", "a virtual dataset"}},
      {"lzf",
       "f.create_dataset('w', data=np.ones(9), compression='lzf')",
       {"w: ", "filter 32000 (lzf)", "compression='gzip'"}},
      {"filter",
       "p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)\n"
       "p.set_chunk((4,)); p.set_filter(32123, h5py.h5z.FLAG_OPTIONAL)\n"
       "h5py.h5d.create(f.id, b'w', h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4,)), "
       "p)",
       {"w: ", "filter 32123, which is not read here"}},
      {"reference",
       "f.create_dataset('w', (1,), h5py.ref_dtype)[0] = f.ref",
       {"w: ", "references to objects or regions"}},
      {"region",
       "f.create_dataset('w', (1,), h5py.regionref_dtype)",
       {"w: ", "references to objects or regions"}},
      {"compound",
       "f['w'] = np.zeros(2, [('a', 'f4'), ('b', 'f4')])",
       {"w: ", "a compound type", "astype('float32')"}},
      {"complex", "f['w'] = np.zeros(2, complex)", {"w: ", "a compound type"}},
      {"text", "f['w'] = 'text'", {"w: ", "it holds text"}},
      {"bool", "f['w'] = np.zeros(2, bool)", {"w: ", "an enumeration (h5py's bool)"}},
      {"short", "f['w'] = np.zeros(2, 'i2')", {"w: ", "integers of a width"}},
      {"long double",
       "f['w'] = np.zeros(2, np.longdouble)",
       {"w: ", "floats that are none of fp64, fp32, fp16 and bf16"}},
      {"lists",
       "f.create_dataset('w', (1,), h5py.vlen_dtype('f4'))",
       {"w: ", "lists of any length"}},
      {"opaque", "f['w'] = np.zeros(2, 'V4')", {"w: ", "opaque bytes"}},
      {"huge",
       "f.create_dataset('w', (10**18, 10**18), 'f4', chunks=(1, 1))",
       {"w: ", "(1000000000000000000, 1000000000000000000) has more values"}},
      {"null", "f['w'] = h5py.Empty('f4')", {"w: ", "a null space"}},
      {"unwritten",
       "f.create_dataset('w', (4,), 'f4')",
       {"w: ", "nobody has written its values"}},
      {"chunk",
       "f.create_dataset('w', (2**30,), 'f4', chunks=(2**29,))",
       {"w: ", "one chunk of it takes 2147483648 bytes", "chunks=True"}},
      {"type", "f['t'] = np.dtype('f4')", {"t: ", "a named type, not a dataset"}},
      {"typed",
       "f['z'] = np.dtype('f4'); f.create_dataset('w', (2,), f['z'])",
       {"w: ", "its type is a named type"}},
  };
  std::string program;
  for (const Case& of : cases)
    program += "f = h5py.File(path + '/" + of.name + ".h5', 'w')\n" + of.program +
               "\nf.close()\n";
  ASSERT_EQ(python(run, program), "");
  for (const Case& of : cases) {
    SCOPED_TRACE(of.name);
    const std::string text = refusal(of.name + ".h5");
    for (const std::string& told : of.told) EXPECT_THAT(text, HasSubstr(told));
    EXPECT_THAT(text, HasSubstr(run + "/" + of.name + ".h5: "));
  }
}

TEST_F(H5OfPython, ADamagedFileIsAnError) {
  ASSERT_EQ(
      python(run,
             "with h5py.File(path + '/a.h5', 'w') as f:\n"
             "    f.create_dataset('w', data=np.arange(1000.0), chunks=(100,),\n"
             "                     fletcher32=True)\n"
             "    place = f['w'].id.get_chunk_info(3).byte_offset\n"
             "data = bytearray(open(path + '/a.h5', 'rb').read())\n"
             "open(path + '/cut.h5', 'wb').write(data[:-100])\n"
             "data[place + 40] ^= 1\n"
             "open(path + '/flipped.h5', 'wb').write(data)\n"
             "open(path + '/way.h5', 'wb').write(data.replace(b'w\\0\\0', b'./w'))\n"
             "data[600:] = bytes(len(data) - 600)\n"
             "open(path + '/zeros.h5', 'wb').write(data)\n"),
      "");
  EXPECT_EQ(read("flipped.h5", "w", 0, 300).at(299), 299);
  EXPECT_THAT(error_of([&] { read("flipped.h5", "w", 200, 200); }),
              AllOf(HasSubstr("w: the values cannot be read: H5Dread failed: "),
                    HasSubstr("copy the file again: it is damaged")));
  EXPECT_THAT(refusal("cut.h5"), AllOf(HasSubstr("truncated file"),
                                       HasSubstr("copy it again: it is damaged")));
  EXPECT_THAT(refusal("way.h5"), HasSubstr("./w: no link has such a name"));
  EXPECT_THAT(refusal("zeros.h5"), HasSubstr("copy it again: it is damaged"));
}

// HDF5 would read beyond a short one, and take memory for all of a long one.
TEST_F(H5OfPython, AChunkUnpacksToItsSize) {
  ASSERT_EQ(
      python(run,
             "import zlib\n"
             "f = h5py.File(path + '/a.h5', 'w')\n"
             "def write(name, data, mask=0, **how):\n"
             "    d = f.create_dataset(name, (3000,), 'f4', chunks=(1000,), **how)\n"
             "    d[:2000] = 1\n"
             "    if data: d.id.write_direct_chunk((2000,), data, mask)\n"
             "write('short', zlib.compress(bytes(3996)), compression='gzip')\n"
             "write('long', zlib.compress(bytes(4001)), compression='gzip')\n"
             "write('cut', zlib.compress(bytes(4000))[:-9], compression='gzip')\n"
             "write('raw', bytes(3999), 1, compression='gzip')\n"
             "write('checked', bytes(4000), fletcher32=True)\n"
             "write('fat', bytes(20000), 1, compression='gzip')\n"
             "write('gone', None)\n"
             "write('whole', bytes(4000), 1, compression='gzip')\n"
             "twice = h5py.h5p.create(h5py.h5p.DATASET_CREATE)\n"
             "twice.set_chunk((4,)); twice.set_deflate(1); twice.set_deflate(1)\n"
             "g = h5py.File(path + '/twice.h5', 'w')\n"
             "h5py.h5d.create(g.id, b'w', h5py.h5t.IEEE_F32LE,\n"
             "                h5py.h5s.create_simple((4,)), twice)\n"),
      "");
  for (const char* name : {"short", "long", "cut", "raw", "checked"})
    EXPECT_THAT(error_of([&] { read("a.h5", name, 0, 1); }),
                HasSubstr("its chunk at (2000) does not unpack to its 4000 bytes"))
        << name;
  EXPECT_THAT(error_of([&] { read("a.h5", "fat", 0, 1); }),
              HasSubstr("takes 20000 bytes for 4000"));
  EXPECT_THAT(error_of([&] { read("a.h5", "gone", 0, 1); }),
              HasSubstr("gone: the values cannot be read: its chunk at (2000) is not "));
  EXPECT_EQ(read("a.h5", "whole", 1999, 2), (std::vector<float>{1, 0}));
  EXPECT_THAT(refusal("twice.h5"), HasSubstr("filter 1 (deflate)"));
}

TEST_F(H5SourceTest, OtherThingsAreNoFilesOfHdf5) {
  write_file(run + "/text.h5", "It was a bright cold day in April.\n");
  write_file(run + "/empty.h5", "");
  EXPECT_THAT(refusal("text.h5"), HasSubstr("text.h5: it is no HDF5 file"));
  EXPECT_THAT(refusal("empty.h5"), HasSubstr("it is no HDF5 file"));
  EXPECT_THAT(refusal("gone.h5"), HasSubstr("there is no such file"));
  EXPECT_THAT(refusal("."), HasSubstr("it is a folder, not an HDF5 file"));
  EXPECT_THAT(error_of([] { H5Source source("/dev/zero"); }),
              HasSubstr("neither a file nor a folder"));
}

TEST_F(H5SourceTest, OurOwnCheckpointIsForInitFrom) {
  const std::string path = save(small_model());
  EXPECT_THAT(error_of([&] { H5Source source(path + "/checkpoint.h5"); }),
              AllOf(HasSubstr("a virtual dataset"), HasSubstr("--init-from DIR")));
}

// A kind that nobody here knows.
TEST_F(H5SourceTest, ALinkOfAUsersKindIsRefused) {
  const auto kind = static_cast<H5L_type_t>(200);
  const H5L_class_t known = {H5L_LINK_CLASS_T_VERS,
                             kind,
                             "mine",
                             nullptr,
                             nullptr,
                             nullptr,
                             [](auto...) -> hid_t {
                               ADD_FAILURE() << "it was followed";
                               return -1;
                             },
                             nullptr,
                             nullptr};
  ASSERT_GE(H5Lregister(&known), 0);
  const std::string path = run + "/a.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Lcreate_ud(file, "w", kind, "text", 4, H5P_DEFAULT, H5P_DEFAULT), 0);
  H5Fclose(file);
  EXPECT_THAT(refusal("a.h5"),
              HasSubstr("w: it is a link of a user's own kind, number 200"));
  H5Lunregister(kind);
}

}  // namespace
}  // namespace zero::checkpoint::testing::h5_source_test
