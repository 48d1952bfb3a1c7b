#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/h5.h"
#include "checkpoint/h5_source.h"
#include "checkpoint/tensor.h"

namespace zero::checkpoint {

// A dataset, and how it is read.
struct ListedDataset {
  TensorType is;
  std::string place;        // where hard links alone lead to it
  int64_t cache_bytes = 0;  // the chunks that a row of it lies in; 0: it has none
};

// All datasets of an open HDF5 file, by path without the first '/', as H5Source promises
// them. Nothing that leads to another file is followed, and no value is read. Errors name
// the path, and not the file. Called within an H5Turn.
std::map<std::string, ListedDataset> list_datasets(hid_t file);

// Make sure that each chunk of an HDF5 dataset was written and unpacks to its size: the
// library itself reads beyond one that is too short, and takes any memory for one that is
// too long. Of other layouts it does nothing.
//
// Reads all chunks, and takes the memory of one. Filters are those that H5Source reads.
// Called within an H5Turn; errors name no file.
void require_whole_chunks(hid_t dataset, const Shape& shape, DType dtype);

}  // namespace zero::checkpoint
