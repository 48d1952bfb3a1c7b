#include "engine/step/torch/gradient_ring.h"

#include <torch/torch.h>

#include "engine/device/torch/compute_type.h"
#include "engine/watch/trace.h"

namespace zero {

GradientRing::GradientRing(const UnitPlan& plan, const SlotPlan& slots, Device& device)
    : plan_(plan), class_of_(slots.class_of), device_(device) {
  for (const SlotPlan::Class& of : slots.classes) {
    std::list<Slot>& same_size = slots_.emplace_back();
    for (int i = 0; i < of.num_slots; ++i) same_size.emplace_back(device, of.slot_bytes);
  }
}

// The slot that was taken first; its reduction may still read it.
GradientRing::Slot& GradientRing::next_slot(int part) {
  std::list<Slot>& slots = slots_[class_of_[part]];
  slots.splice(slots.end(), slots, slots.begin());
  const auto span = device_.timed(device_.compute_stream(), Work::kWaiting, "wait for",
                                  "room for gradients");
  device_.compute_stream().wait(slots.back().idle);
  return slots.back();
}

GradientRing::Slot& GradientRing::fill(int part, const std::vector<at::Tensor>& gradients,
                                       DType type) {
  Slot& slot = next_slot(part);
  slot.type = type;
  const torch::NoGradGuard no_grad;
  const Trace::Span span("fill", plan_.parts[part].tag);
  const FlatLayout& layout = plan_.parts[part].layout;
  clear_padding(slot, layout);
  for (size_t i = 0; i < layout.params.size(); ++i) {
    at::Tensor place = param_in(slot, layout, i);
    gradients[i].defined() ? place.copy_(gradients[i]) : place.zero_();
  }
  return slot;
}

at::Tensor GradientRing::param_in(const Slot& slot, const FlatLayout& layout,
                                  size_t param) const {
  const c10::Device device = tensor_device(device_.gpu_index());
  return at::for_blob(slot.arena.data() + layout.offsets[param] * size_of(slot.type),
                      layout.params[param].shape)
      .options(at::device(device).dtype(scalar_type(slot.type)))
      .target_device(device)
      .make_tensor();
}

void GradientRing::clear_padding(const Slot& slot, const FlatLayout& layout) const {
  const int64_t element = size_of(slot.type);
  for (size_t i = 0; i < layout.params.size(); ++i) {
    const int64_t begin = layout.offsets[i] + layout.params[i].numel();
    const int64_t end =
        i + 1 < layout.params.size() ? layout.offsets[i + 1] : layout.numel;
    device_.compute_stream().set_bytes(slot.arena.data() + begin * element, 0,
                                       (end - begin) * element);
  }
}

}  // namespace zero
