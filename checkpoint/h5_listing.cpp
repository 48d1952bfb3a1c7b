#include "checkpoint/h5_listing.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/error.h"

namespace zero::checkpoint {
namespace {

using Dims = std::vector<hsize_t>;

constexpr char kCopyValues[] =
    "copy the values into a plain dataset: new[name] = old[name][...] in h5py";

[[noreturn]] void refuse(const std::string& problem,
                         const std::string& cure = kCopyValues) {
  throw CheckpointError("", "", problem, cure);
}

// ---- One dataset.

using NamedClass = std::pair<H5T_class_t, const char*>;
constexpr NamedClass kClassNames[] = {
    {H5T_INTEGER, "integers of a width that tensors do not have"},
    {H5T_FLOAT, "floats that are none of fp64, fp32, fp16 and bf16"},
    {H5T_STRING, "text"},
    {H5T_BITFIELD, "bit fields"},
    {H5T_OPAQUE, "opaque bytes"},
    {H5T_COMPOUND, "a compound type"},
    {H5T_REFERENCE, "references to objects or regions"},
    {H5T_ENUM, "an enumeration (h5py's bool)"},
    {H5T_VLEN, "lists of any length"},
    {H5T_ARRAY, "arrays"}};

const char* name_of_class(H5T_class_t type) {
  const auto found = std::ranges::find(kClassNames, type, &NamedClass::first);
  return found == std::end(kClassNames) ? "an unknown type" : found->second;
}

bool is_of(hid_t type, DType dtype) {
  const H5Handle ours = make_type(dtype);
  if (check_h5(H5Tequal(type, ours), "H5Tequal") > 0) return true;
  if (size_of(dtype) == 1) return false;
  check_h5(H5Tset_order(ours, H5T_ORDER_BE), "H5Tset_order");
  return check_h5(H5Tequal(type, ours), "H5Tequal") > 0;
}

DType dtype_of(hid_t dataset) {
  const H5Handle type(H5Dget_type(dataset), H5Tclose, "H5Dget_type");
  if (check_h5(H5Tcommitted(type), "H5Tcommitted") > 0)
    refuse("its type is a named type, an object of the file");
  for (const DType dtype : {DType::kFp32, DType::kFp64, DType::kFp16, DType::kBf16,
                            DType::kInt64, DType::kInt32, DType::kUint8}) {
    if (is_of(type, dtype)) return dtype;
  }
  refuse(text_of("it holds ", name_of_class(H5Tget_class(type))),
         "floats, as fp32: new[name] = old[name][...].astype('float32') in h5py; or a "
         "file without it");
}

Shape shape_of(hid_t dataset) {
  const H5Handle space(H5Dget_space(dataset), H5Sclose, "H5Dget_space");
  if (H5Sget_simple_extent_type(space) == H5S_NULL)
    refuse("it has no values at all (a null space)", "a file without it");
  const int rank = static_cast<int>(
      check_h5(H5Sget_simple_extent_ndims(space), "H5Sget_simple_extent_ndims"));
  Dims dims(rank);
  check_h5(H5Sget_simple_extent_dims(space, dims.data(), nullptr),
           "H5Sget_simple_extent_dims");
  const Shape shape(dims.begin(), dims.end());
  if (!checked_numel(shape))
    refuse(text_of("its shape ", to_string(shape), " has more values than any tensor"),
           "look at what wrote it: no model has this size");
  return shape;
}

void require_own_values(hid_t options) {
  if (H5Pget_layout(options) == H5D_VIRTUAL) {
    refuse("it is a virtual dataset, whose values lie elsewhere",
           std::string(kCopyValues) +
               "; a checkpoint of zero goes to --init-from DIR as it is");
  }
  if (check_h5(H5Pget_external_count(options), "H5Pget_external_count") > 0)
    refuse("its values lie in another file (external storage)");
}

void require_known_filters(hid_t options) {
  const auto count = check_h5(H5Pget_nfilters(options), "H5Pget_nfilters");
  std::set<H5Z_filter_t> seen;
  for (unsigned i = 0; i < count; ++i) {
    std::array<char, 64> name{};
    unsigned flags = 0, config = 0;
    size_t num_values = 0;
    const auto filter = static_cast<H5Z_filter_t>(
        check_h5(H5Pget_filter2(options, i, &flags, &num_values, nullptr, name.size() - 1,
                                name.data(), &config),
                 "H5Pget_filter2"));
    const bool is_known = filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE ||
                          filter == H5Z_FILTER_FLETCHER32;
    if (is_known && seen.insert(filter).second && H5Zfilter_avail(filter) > 0) continue;
    const std::string called = name[0] ? text_of(" (", printable(name.data()), ")") : "";
    refuse(text_of("it is packed by filter ", filter, called, ", which is not read here"),
           "write it anew, plain or with compression='gzip': new[name] = old[name][...] "
           "in h5py");
  }
}

// Of the chunks that lie side by side, once through all dimensions but the first.
int64_t cache_bytes_of(hid_t options, const Shape& shape, DType dtype) {
  constexpr int64_t kMost = int64_t{64} << 20;
  if (H5Pget_layout(options) != H5D_CHUNKED) return 0;
  Dims chunk(shape.size());
  const int64_t rank =
      check_h5(H5Pget_chunk(options, static_cast<int>(chunk.size()), chunk.data()),
               "H5Pget_chunk");
  if (rank != static_cast<int64_t>(shape.size()) || std::ranges::count(chunk, 0u) > 0)
    refuse("its chunks have another shape than it has", "");
  const std::optional<int64_t> numel = checked_numel(Shape(chunk.begin(), chunk.end()));
  const int64_t chunk_bytes = numel.value_or(kMaxH5ChunkBytes) * size_of(dtype);
  if (chunk_bytes > kMaxH5ChunkBytes)
    refuse(text_of("one chunk of it takes ", chunk_bytes,
                   " bytes or more; allowed: ", kMaxH5ChunkBytes),
           "write it anew in smaller chunks: chunks=True in h5py");
  int64_t row_bytes = chunk_bytes;
  for (size_t dim = 1; dim < shape.size() && row_bytes < kMost; ++dim) {
    const auto size = static_cast<int64_t>(chunk[dim]);
    row_bytes *= std::min(kMost, (shape[dim] + size - 1) / size);
  }
  return std::max(chunk_bytes, std::min(kMost, row_bytes));
}

ListedDataset describe(hid_t dataset, const std::string& place) {
  const H5Handle options(H5Dget_create_plist(dataset), H5Pclose, "H5Dget_create_plist");
  require_own_values(options);
  require_known_filters(options);
  ListedDataset listed;
  listed.is = {dtype_of(dataset), shape_of(dataset)};
  listed.place = place;
  listed.cache_bytes = cache_bytes_of(options, listed.is.shape, listed.is.dtype);
  if (checked_numel(listed.is.shape) != 0 && H5Dget_storage_size(dataset) == 0)
    refuse("nobody has written its values", "a file that was written to its end");
  return listed;
}

// ---- All of them.

struct Link {
  std::string name;
  H5L_type_t type;
  size_t value_bytes;  // of those that are not hard
};

constexpr size_t kMaxLinks = 262144;
constexpr int kMaxDepth = 32;

herr_t append_link(hid_t, const char* name, const H5L_info_t* info, void* to) {
  auto& links = *static_cast<std::vector<Link>*>(to);
  if (links.size() >= kMaxLinks) return 1;  // ends it
  links.push_back({name, info->type, info->type == H5L_TYPE_HARD ? 0 : info->u.val_size});
  return 0;
}

class Walk {
 public:
  explicit Walk(hid_t file) {
    const H5Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose, "H5Gopen2");
    enter(root, "", 0);
    for (const auto& [path, target] : soft_links_) naming(path, [&] { follow(path); });
    datasets_.merge(linked_);
  }

  std::map<std::string, ListedDataset> result() && { return std::move(datasets_); }

 private:
  void enter(hid_t group, const std::string& prefix, int depth) {
    if (depth > kMaxDepth)
      refuse(text_of("groups lie more than ", kMaxDepth, " deep, or in a circle"),
             "a file of datasets whose names have dots: h.0.attn.weight");
    std::vector<Link> links;
    hsize_t position = 0;
    check_h5(
        H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &position, append_link, &links),
        "H5Literate");
    count(links.size());
    groups_.insert(prefix);
    for (const Link& link : links) {
      const std::string path = prefix + link.name;
      naming(path, [&] { take(group, link, path, depth); });
    }
  }

  void count(size_t num_links) {
    num_links_ += num_links;
    if (num_links_ >= kMaxLinks)
      refuse(text_of("the file has ", kMaxLinks, " links or more"), "a model's weights");
  }

  void take(hid_t group, const Link& link, const std::string& path, int depth) {
    // HDF5 would take it for a way, which may lead anywhere.
    if (link.name == "." || link.name.find('/') != link.name.npos)
      refuse("no link has such a name", "a file that HDF5 itself has written");
    if (link.type == H5L_TYPE_SOFT)
      soft_links_[path] = value_of(group, link).data();
    else if (link.type == H5L_TYPE_EXTERNAL)
      refuse_external(value_of(group, link));
    else if (link.type != H5L_TYPE_HARD)
      refuse(text_of("it is a link of a user's own kind, number ", int{link.type}));
    else
      take_object(group, link, path, depth);
  }

  void take_object(hid_t group, const Link& link, const std::string& path, int depth) {
    const H5Handle object(H5Oopen(group, link.name.c_str(), H5P_DEFAULT), H5Oclose,
                          "H5Oopen");
    const H5I_type_t type = H5Iget_type(object);
    if (type == H5I_GROUP)
      enter(object, path + "/", depth + 1);
    else if (type == H5I_DATASET)
      datasets_[path] = describe(object, path);
    else
      refuse("it is a named type, not a dataset", "a file without it");
  }

  // Ends with a zero.
  static std::vector<char> value_of(hid_t group, const Link& link) {
    std::vector<char> value(link.value_bytes + 1);
    check_h5(
        H5Lget_val(group, link.name.c_str(), value.data(), link.value_bytes, H5P_DEFAULT),
        "H5Lget_val");
    return value;
  }

  [[noreturn]] static void refuse_external(const std::vector<char>& value) {
    const char *file = nullptr, *object = nullptr;
    check_h5(H5Lunpack_elink_val(value.data(), value.size() - 1, nullptr, &file, &object),
             "H5Lunpack_elink_val");
    refuse(text_of("it is an external link, to ", printable(object), " of ",
                   printable(file)));
  }

  // What a soft link leads to is there under the link's path, too: a dataset, or all that
  // are in a group.
  void follow(const std::string& path) {
    count(1);
    const std::string target = resolve(path);
    const auto found = datasets_.find(target);
    if (found != datasets_.end()) {
      linked_[path] = found->second;
      return;
    }
    const std::string group = target.empty() ? "" : target + "/";
    if (!groups_.contains(group))
      refuse(text_of("it is a soft link to ", printable(target),
                     ", which is no dataset or group of this file"));
    const auto path_of = [&](const std::string& inner) {
      return path + "/" + inner.substr(group.size());
    };
    for (auto inner = datasets_.lower_bound(group);
         inner != datasets_.end() && inner->first.starts_with(group); ++inner) {
      count(1);
      linked_[path_of(inner->first)] = inner->second;
    }
    for (auto inner = soft_links_.lower_bound(group);
         inner != soft_links_.end() && inner->first.starts_with(group); ++inner)
      follow(path_of(inner->first));
  }

  // The path without soft links in it. Not by HDF5, which would also follow links to
  // other files on the way, but as far as HDF5 would.
  std::string resolve(const std::string& path) const {
    constexpr int kMost = 16;
    std::string resolved, rest = path;
    for (int num_followed = 0; !rest.empty();) {
      const std::string part = rest.substr(0, rest.find('/'));
      rest.erase(0, part.size() + 1);
      if (part.empty() || part == ".") continue;
      const std::string next = resolved.empty() ? part : resolved + "/" + part;
      const auto link = soft_links_.find(next);
      if (link == soft_links_.end()) {
        resolved = next;
        continue;
      }
      if (++num_followed > kMost)
        refuse(text_of("it is a soft link that leads in a circle, or over more than ",
                       kMost, " links"),
               "a file without it");
      if (link->second.starts_with('/')) resolved.clear();
      rest = link->second + "/" + rest;
    }
    return resolved;
  }

  std::map<std::string, ListedDataset> datasets_;  // to which hard links lead
  std::map<std::string, ListedDataset> linked_;    // to which soft links lead
  std::map<std::string, std::string> soft_links_;  // what each leads to
  std::set<std::string> groups_;                   // each with a '/' behind; "": the root
  size_t num_links_ = 0;
};

}  // namespace

std::map<std::string, ListedDataset> list_datasets(hid_t file) {
  return Walk(file).result();
}

}  // namespace zero::checkpoint
