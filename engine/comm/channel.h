#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "engine/comm/transport.h"

namespace zero {

class CallTrace;
class Transport;

// The calls of one group of ranks: numbered, traced, and run over a Transport one after
// the other, in whatever thread.
//
// The first failure ends the channel: later calls throw it again, and the other ranks are
// told.
class Channel {
 public:
  explicit Channel(std::unique_ptr<Transport> transport,
                   std::shared_ptr<CallTrace> trace = nullptr);
  ~Channel();

  RankCall next_call(Operation operation, int variant, int64_t bytes,
                     const std::string& tag);
  void run(const RankCall& call, const std::function<void(Transport&)>& operation);
  // Of the ranks that pass the same colour. Nothing may be running.
  std::unique_ptr<Channel> split(Operation operation, int color);

  // Leave the group: a blocked call throws, and so do later ones.
  void close() noexcept;
  void trace_to(const std::string& path);
  Transport& transport() { return *transport_; }
  const Transport& transport() const { return *transport_; }

 private:
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<CallTrace> trace_;
  uint64_t num_calls_ = 0;
  std::exception_ptr failure_;
};

}  // namespace zero
