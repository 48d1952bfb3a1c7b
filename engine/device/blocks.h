#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace zero {

// What is allocated where, and for whom. From any thread.
class Blocks {
 public:
  void add(void* memory, const std::string& owner, int64_t bytes);
  void remove(void* memory);

  int64_t bytes() const;
  bool hold(const void* address) const;  // that it lies in one of them
  std::vector<void*> left() const;       // what is not removed yet
  // The largest owners first: "gather ring 1.5 GiB, gradient ring 0.5 GiB".
  std::string by_owner() const;

 private:
  struct Block {
    std::string owner;
    int64_t bytes = 0;
  };

  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;  // guarded by mutex_
  int64_t bytes_ = 0;              // guarded by mutex_
};

}  // namespace zero
