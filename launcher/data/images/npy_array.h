#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/data/mapped_file.h"

namespace zero::data {

// A NumPy array in a file (.npy, versions 1 to 3): C order, little-endian, its values
// from byte data_begin() to the file's end. Source: numpy.lib.format.
class NpyArray {
 public:
  // Throws DataError for a file that is no such array, is of another order or has not as
  // many values as its header says.
  explicit NpyArray(const std::string& path);

  const MappedFile& file() const { return file_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  std::string shape_text() const;                    // "(10, 32, 32, 3)"
  const std::string& type() const { return type_; }  // "u1", "i8", "f4", ...
  int64_t bytes_per_value() const { return bytes_per_value_; }
  int64_t data_begin() const { return data_begin_; }

 private:
  void read_header();
  void check_size() const;

  // Constant after construction.
  MappedFile file_;
  std::vector<int64_t> shape_;
  std::string type_;
  int64_t bytes_per_value_ = 0;
  int64_t data_begin_ = 0;
};

}  // namespace zero::data
