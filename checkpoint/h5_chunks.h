#pragma once

#include "checkpoint/h5.h"
#include "checkpoint/tensor.h"

namespace zero::checkpoint {

// Make sure that each chunk of an HDF5 dataset was written and unpacks to its size: the
// library itself reads beyond one that is too short, and takes any memory for one that is
// too long. Of other layouts it does nothing.
//
// Reads all chunks, and takes the memory of one. Filters are those that H5Source reads.
// Called within an H5Turn; errors name no file.
void require_whole_chunks(hid_t dataset, const Shape& shape, DType dtype);

}  // namespace zero::checkpoint
