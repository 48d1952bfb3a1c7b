#include "engine/unit/exchange_tape.h"

#include "zero/errors.h"

namespace zero {
namespace {

thread_local ExchangeTape* innermost_tape = nullptr;

}  // namespace

ExchangeTape::ExchangeTape(std::vector<at::Tensor>* keeps, const std::string& unit)
    : outer_(innermost_tape), keeps_(keeps), repeats_(nullptr), unit_(unit) {
  innermost_tape = this;
}
ExchangeTape::ExchangeTape(const std::vector<at::Tensor>& repeats,
                           const std::string& unit)
    : outer_(innermost_tape), keeps_(nullptr), repeats_(&repeats), unit_(unit) {
  innermost_tape = this;
}
ExchangeTape::~ExchangeTape() { innermost_tape = outer_; }

at::Tensor ExchangeTape::result_of(const std::function<at::Tensor()>& exchange) {
  return innermost_tape ? innermost_tape->next(exchange) : exchange();
}

at::Tensor ExchangeTape::next(const std::function<at::Tensor()>& exchange) {
  if (repeats_) {
    if (num_repeated_ == repeats_->size()) refuse();
    return (*repeats_)[num_repeated_++];
  }
  at::Tensor result = outer_ ? outer_->next(exchange) : exchange();
  if (keeps_) keeps_->push_back(result);
  return result;
}

void ExchangeTape::require_end() const {
  if (repeats_ && num_repeated_ < repeats_->size()) refuse();
}

void ExchangeTape::refuse() const {
  reject("recomputing called other synchronised batch norms than the forward", unit_,
         "let forward depend on its arguments, parameters and registered buffers alone, "
         "or keep the graph (Options::recompute, --recompute none)");
}

}  // namespace zero
