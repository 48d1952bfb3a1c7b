#include "zero/ranks.h"

#include <algorithm>

#include "engine/comm/channel.h"
#include "engine/comm/collectives.h"
#include "engine/comm/transport.h"

namespace zero {

Ranks::Ranks(std::unique_ptr<Transport> transport)
    : Ranks(std::make_unique<Channel>(std::move(transport))) {}

Ranks::Ranks(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

Ranks::~Ranks() { channel_->close(); }

int Ranks::rank() const { return channel_->transport().rank(); }
int Ranks::size() const { return channel_->transport().size(); }
int Ranks::local_rank() const { return channel_->transport().local().rank; }
int Ranks::local_size() const { return channel_->transport().local().size; }

void Ranks::all_reduce(std::span<int64_t> values, ReduceOp op, const std::string& tag) {
  const RankCall call = channel_->next_call(Operation::kAllReduce, static_cast<int>(op),
                                            std::ssize(values) * 8, tag);
  channel_->run(
      call, [&](Transport& transport) { reduce_values(transport, call, values, op); });
}

void Ranks::all_reduce(std::span<double> values, ReduceOp op, const std::string& tag) {
  const int variant = 16 + static_cast<int>(op);  // not to be taken for integers
  const RankCall call =
      channel_->next_call(Operation::kAllReduce, variant, std::ssize(values) * 8, tag);
  channel_->run(
      call, [&](Transport& transport) { reduce_values(transport, call, values, op); });
}

int64_t Ranks::largest(int64_t value, const std::string& tag) {
  all_reduce(std::span(&value, 1), ReduceOp::kMax, tag);
  return value;
}

void Ranks::all_gather(std::span<const double> own, std::span<double> all,
                       const std::string& tag) {
  const int64_t bytes = std::ssize(own) * 8;
  constexpr int kVariant = 16;  // not to be taken for texts
  const RankCall call = channel_->next_call(Operation::kAllGather, kVariant, bytes, tag);
  channel_->run(call, [&](Transport& transport) {
    transport.all_gather(call, own.data(), all.data(), bytes);
  });
}

void Ranks::broadcast(void* data, int64_t bytes, int root, const std::string& tag) {
  const RankCall call = channel_->next_call(Operation::kBroadcast, root, bytes, tag);
  channel_->run(
      call, [&](Transport& transport) { transport.broadcast(call, data, bytes, root); });
}

std::string Ranks::broadcast(const std::string& text, int root) {
  const bool is_root = rank() == root;
  int64_t length = std::ssize(text);
  broadcast(&length, sizeof length, root, "length of a text");
  std::string result = is_root ? text : std::string(length, '\0');
  if (length > 0) broadcast(result.data(), length, root, "text");
  return result;
}

std::vector<std::string> Ranks::gather(const std::string& text) {
  const int64_t longest = largest(std::ssize(text), "longest of the texts");
  const int64_t bytes = longest + static_cast<int64_t>(sizeof longest);
  std::string own(bytes, '\0'), all(size() * bytes, '\0');  // each: its length, itself
  const int64_t length = std::ssize(text);
  std::copy_n(reinterpret_cast<const char*>(&length), sizeof length, own.data());
  text.copy(own.data() + sizeof length, text.size());
  const RankCall call = channel_->next_call(Operation::kAllGather, 0, bytes, "texts");
  channel_->run(call, [&](Transport& transport) {
    transport.all_gather(call, own.data(), all.data(), bytes);
  });
  std::vector<std::string> texts;
  for (int64_t begin = 0; begin < std::ssize(all); begin += bytes) {
    int64_t length_there = 0;
    std::copy_n(&all[begin], sizeof length_there, reinterpret_cast<char*>(&length_there));
    texts.push_back(all.substr(begin + sizeof length_there, length_there));
  }
  return texts;
}

void Ranks::barrier(const std::string& tag) {
  const RankCall call = channel_->next_call(Operation::kBarrier, 0, 0, tag);
  channel_->run(call, [&](Transport& transport) { transport.barrier(call); });
}

std::unique_ptr<Ranks> Ranks::split(int color) {
  return std::unique_ptr<Ranks>(new Ranks(channel_->split(Operation::kSplit, color)));
}

std::unique_ptr<Ranks> Ranks::duplicate() {
  return std::unique_ptr<Ranks>(new Ranks(channel_->split(Operation::kDuplicate, 0)));
}

std::unique_ptr<Collectives> Ranks::make_collectives() {
  return make_host_collectives(channel_->split(Operation::kDuplicate, 0));
}

void Ranks::trace_to(const std::string& path) { channel_->trace_to(path); }

}  // namespace zero
