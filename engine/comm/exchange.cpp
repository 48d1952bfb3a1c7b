#include "engine/comm/exchange.h"

#include <array>

#include "engine/comm/communicator.h"
#include "engine/device/host_device.h"

namespace zero {

std::string broadcast_text(Communicator& ranks, const std::string& text, int root) {
  const bool is_root = ranks.rank() == root;
  auto stream = make_inline_stream("text");
  int64_t length = is_root ? std::ssize(text) : 0;
  ranks.broadcast(&length, sizeof length, root, "length of a text", *stream);
  std::string result = is_root ? text : std::string(length, '\0');
  if (length > 0) ranks.broadcast(result.data(), length, root, "text", *stream);
  stream->synchronize();
  return result;
}

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks.size(); ++rank)
    texts.push_back(broadcast_text(ranks, text, rank));
  return texts;
}

int64_t largest(Communicator& ranks, int64_t value, const std::string& tag) {
  std::array<int64_t, 1> values{value};
  auto stream = make_inline_stream(tag);
  ranks.all_reduce(std::span<int64_t>(values), ReduceOp::kMax, tag, *stream);
  stream->synchronize();
  return values[0];
}

}  // namespace zero
