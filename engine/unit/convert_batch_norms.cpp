#include <map>
#include <typeinfo>

#include "engine/unit/batch_norm_ranks.h"
#include "engine/weights/torch/flat_params.h"
#include "zero/batch_norm.h"
#include "zero/errors.h"

namespace zero {
namespace {

namespace nn = torch::nn;

// An entry of a Sequential that can be replaced.
struct Entry {
  nn::SequentialImpl* holder;
  std::string name;  // in its holder
  nn::AnyModule* place;
};

struct FoundNorms {
  std::vector<Entry> entries;
  std::vector<std::string> unreached;
};

// The entry itself, where it is torch's and not of a class made from it.
nn::AnyModule* place_in(nn::SequentialImpl* holder, const nn::Module& module) {
  const std::type_info& type = typeid(module);
  const bool is_known = type == typeid(nn::BatchNorm1dImpl) ||
                        type == typeid(nn::BatchNorm2dImpl) ||
                        type == typeid(nn::BatchNorm3dImpl);
  if (!holder || !is_known) return nullptr;
  for (nn::AnyModule& entry : *holder) {
    if (entry.ptr().get() == &module) return &entry;
  }
  return nullptr;
}

void find(nn::Module& module, const std::string& prefix, FoundNorms& found) {
  auto* holder = dynamic_cast<nn::SequentialImpl*>(&module);
  for (const auto& item : module.named_children()) {
    nn::Module& child = *item.value();
    if (!is_plain_batch_norm(child)) {
      find(child, prefix + item.key() + ".", found);
    } else if (nn::AnyModule* place = place_in(holder, child)) {
      found.entries.push_back({holder, item.key(), place});
    } else {
      found.unreached.push_back(prefix + item.key());
    }
  }
}

nn::AnyModule converted(const nn::Module& module) {
  if (const auto* norm = dynamic_cast<const nn::BatchNorm1dImpl*>(&module))
    return nn::AnyModule(std::make_shared<BatchNorm1dImpl>(*norm));
  if (const auto* norm = dynamic_cast<const nn::BatchNorm2dImpl*>(&module))
    return nn::AnyModule(std::make_shared<BatchNorm2dImpl>(*norm));
  return nn::AnyModule(std::make_shared<BatchNorm3dImpl>(
      dynamic_cast<const nn::BatchNorm3dImpl&>(module)));
}

void require_reached(const std::vector<std::string>& unreached) {
  if (unreached.empty()) return;
  std::string names;
  for (const std::string& name : unreached) names += (names.empty() ? "" : ", ") + name;
  reject(
      "batch norms that cannot be replaced from outside, as they are no entries of an "
      "nn::Sequential",
      names, "use zero::BatchNorm2d (1d, 3d) there");
}

void require_no_engine(const nn::Module& root) {
  for (const at::Tensor& tensor : root.parameters()) {
    if (is_flat(tensor))
      reject("a model that has a zero::Engine already", "convert_sync_batchnorm",
             "convert it before the engine is made");
  }
}

}  // namespace

std::vector<std::string> convert_sync_batchnorm(nn::Module& root, Unreached unreached) {
  require_no_engine(root);
  FoundNorms found;
  if (is_plain_batch_norm(root)) found.unreached.emplace_back("the model itself");
  find(root, "", found);
  if (unreached == Unreached::kRefuse) require_reached(found.unreached);
  std::map<std::shared_ptr<nn::Module>, nn::AnyModule> made;  // one of several names too
  for (const Entry& entry : found.entries) {
    const std::shared_ptr<nn::Module> old = entry.place->ptr();
    auto place = made.find(old);
    if (place == made.end()) place = made.emplace(old, converted(*old)).first;
    *entry.place = place->second;
    entry.holder->replace_module(entry.name, place->second.ptr());
  }
  return found.unreached;
}

}  // namespace zero
