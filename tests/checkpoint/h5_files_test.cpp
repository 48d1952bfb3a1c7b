#include "checkpoint/h5_files.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/files.h"

namespace zero::checkpoint::h5_files_test {
namespace {

int64_t own_bytes() { return 1024 * read_field("/proc/self/status", "RssAnon:").value(); }

std::vector<StoredTensor> many_tensors(int count) {
  std::vector<StoredTensor> tensors(count);
  for (int i = 0; i < count; ++i) {
    tensors[i].fqn = "layers." + std::to_string(i) + ".weight";
    tensors[i].shape = {8, 8};
    tensors[i].pieces = {{"shard_0_of_1.h5", 0, 256L * i, 256, {}}};
  }
  return tensors;
}

// A save must not need memory that no plan has.
TEST(H5Files, ManyTensorsTakeLittleMemory) {
  const int64_t first = make_virtual_image(many_tensors(10), {})->size_bytes();
  const int64_t before = own_bytes();
  const auto image = make_virtual_image(many_tensors(3000), {});
  EXPECT_GT(image->size_bytes(), 100 * first);
  EXPECT_LT(own_bytes() - before, 10 << 20);
}

std::string bytes_of(const File& file) {
  std::string bytes(file.size_bytes(), '\0');
  file.read(bytes.data(), bytes.size(), 0);
  return bytes;
}

// The next save of a run costs HDF5 nothing, and one of another run has its own.
TEST(H5Files, TheLastImageServesTensorsThatDifferInValuesAlone) {
  std::vector<StoredTensor> tensors = many_tensors(3);
  const auto first = make_virtual_image(tensors, {{"tied", tensors[0].fqn}});
  tensors[0].pieces[0].hashes = {7};
  EXPECT_EQ(make_virtual_image(tensors, {{"tied", tensors[0].fqn}}), first);
  const auto expect_other = [&](const std::vector<StoredTensor>& other,
                                const std::map<std::string, std::string>& aliases) {
    const auto image = make_virtual_image(other, aliases);
    EXPECT_NE(image, first);
    EXPECT_NE(bytes_of(*image), bytes_of(*first));
  };
  expect_other(tensors, {});
  expect_other(many_tensors(4), {{"tied", tensors[0].fqn}});
  tensors[1].dtype = DType::kBf16;
  expect_other(tensors, {{"tied", tensors[0].fqn}});
  tensors = many_tensors(3);
  tensors[2].pieces[0].file = "shard_1_of_2.h5";
  expect_other(tensors, {{"tied", tensors[0].fqn}});
}

TEST(H5Files, TheLastLayoutServesSlicesOfTheSameSizes) {
  const float values[8] = {};
  Slice slice{{Kind::kParam, "w", DType::kFp32, {8}}, 0, 4, values};
  const auto first = lay_out_shard({slice});
  slice.begin = 4, slice.data = values + 4;
  EXPECT_EQ(lay_out_shard({slice}), first);
  slice.numel = 3;
  const auto shorter = lay_out_shard({slice});
  EXPECT_NE(shorter, first);
  EXPECT_NE(bytes_of(shorter->image), bytes_of(first->image));
  slice.numel = 0;
  EXPECT_EQ(lay_out_shard({slice})->offsets, std::vector<int64_t>{-1});
}

// Others read values as HDF5 says that they are.
TEST(H5Files, TypesAreThoseOfTheValues) {
  for (const DType dtype : {DType::kFp64, DType::kFp32, DType::kBf16, DType::kFp16,
                            DType::kInt64, DType::kInt32, DType::kUint8, DType::kBool}) {
    SCOPED_TRACE(name_of(dtype));
    const int64_t bytes = 2 * size_of(dtype);
    const auto image =
        make_virtual_image({{.kind = Kind::kBuffer,
                             .fqn = "b",
                             .dtype = dtype,
                             .shape = {2},
                             .pieces = {{"shard_0_of_1.h5", 0, 0, bytes, {}}}}},
                           {});
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_stdio(access);
    const hid_t file = H5Fopen(image->path().c_str(), H5F_ACC_RDONLY, access);
    const hid_t dataset = H5Dopen2(file, "buffers/b", H5P_DEFAULT);
    const hid_t type = H5Dget_type(dataset);
    EXPECT_EQ(H5Tget_size(type), size_of(dtype));
    EXPECT_EQ(H5Tget_class(type), is_floating(dtype) ? H5T_FLOAT : H5T_INTEGER);
    if (!is_floating(dtype)) {
      const bool is_signed = dtype == DType::kInt64 || dtype == DType::kInt32;
      EXPECT_EQ(H5Tget_sign(type), is_signed ? H5T_SGN_2 : H5T_SGN_NONE);
    }
    H5Tclose(type), H5Dclose(dataset), H5Fclose(file), H5Pclose(access);
  }
}

}  // namespace
}  // namespace zero::checkpoint::h5_files_test
