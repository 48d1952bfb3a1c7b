#pragma once
#include <string>

#include "engine/device/chaos.h"
#include "engine/device/host_device.h"

namespace zero {

// A stream whose operations run at once in the calling thread; a wait blocks it, a
// failure is thrown to it.
class InlineStream final : public HostStream {
 public:
  explicit InlineStream(std::string name) : name_(std::move(name)) {}
  InlineStream(std::string name, const HostDeviceOptions& options);

  const std::string& name() const override { return name_; }
  void enqueue(std::function<void()> operation) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override {}

 private:
  std::string name_;
  Chaos chaos_;
};

}  // namespace zero
