#pragma once
#include <functional>
#include <memory>
#include <string>

namespace zero {

class Communicator;
class HostStream;

// Ranks that do something together and fail together.
class Agreement {
 public:
  // `subject` is what the ranks must agree on: with different ones, all of them throw.
  Agreement(Communicator& ranks, std::string subject);
  ~Agreement();

  // Run `body` on this rank; then every rank throws the error of the lowest rank whose
  // body failed, if any did: an Error as it was, anything else as a CheckpointError.
  void run(const std::function<void()>& body);

  bool is_first() const { return rank() == 0; }
  int rank() const;
  int size() const;

 private:
  Communicator& ranks_;
  const std::string subject_;
  const std::unique_ptr<HostStream> stream_;
};

}  // namespace zero
