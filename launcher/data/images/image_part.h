#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/data/file_chunks.h"
#include "launcher/data/images/decode.h"

namespace zero::data {

// Does anybody ask for labels? kNone: data to be looked at, of which labels are unknown.
enum class ImageLabels { kRequired, kNone };

// The label of an image that has none.
inline constexpr int64_t kNoLabel = -1;

// Images that lie together: what ImageSource is made of. const members may be called from
// several threads. Images are numbered from 0.
class ImagePart {
 public:
  virtual ~ImagePart() = default;

  virtual std::string kind() const = 0;  // "CIFAR-10"
  virtual std::string where() const = 0;
  // One for each label; none: there are no labels.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual std::vector<std::string> warnings() const = 0;

  virtual int64_t num_images() const = 0;
  virtual int64_t num_bytes() const = 0;  // of the files

  virtual int64_t label(int64_t i) const = 0;     // or kNoLabel
  virtual std::string name(int64_t i) const = 0;  // moves with the data
  virtual Image read(int64_t i) const = 0;        // throws DataError

  // Look at each file as far as it is cheap: what it is, how long. Throws DataError.
  virtual void check(const OnRead& on_read) const = 0;

  // XXH3 over names, sizes and contents of the files, continuing from `seed`.
  virtual uint64_t content_hash(uint64_t seed, const OnRead& on_read) const = 0;
};

using ImageParts = std::vector<std::unique_ptr<ImagePart>>;

// "0", "1", ...: the names of classes that have none.
std::vector<std::string> numbered_classes(int64_t count);

}  // namespace zero::data
