#include "engine/device/blocks.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

namespace zero {

void Blocks::add(void* memory, const std::string& owner, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  [[maybe_unused]] const bool is_new = blocks_.insert({memory, {owner, bytes}}).second;
  assert(is_new);
  bytes_ += bytes;
}

void Blocks::remove(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(memory);
  assert(block != blocks_.end() && "freed twice, or never allocated here");
  bytes_ -= block->second.bytes;
  blocks_.erase(block);
}

int64_t Blocks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

bool Blocks::hold(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(const_cast<void*>(address));
  if (next == blocks_.begin()) return false;
  const auto& [begin, block] = *std::prev(next);
  return static_cast<const std::byte*>(address) <
         static_cast<const std::byte*>(begin) + block.bytes;
}

std::vector<void*> Blocks::left() const {
  const std::lock_guard lock(mutex_);
  std::vector<void*> memories;
  for (const auto& [memory, block] : blocks_) memories.push_back(memory);
  return memories;
}

std::string Blocks::by_owner() const {
  std::map<std::string, int64_t> bytes_of;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [memory, block] : blocks_) bytes_of[block.owner] += block.bytes;
  }
  std::vector<std::pair<int64_t, std::string>> owners;
  for (const auto& [owner, bytes] : bytes_of) owners.emplace_back(-bytes, owner);
  std::sort(owners.begin(), owners.end());
  std::string text;
  for (const auto& [bytes, owner] : owners)
    text +=
        (text.empty() ? "" : ", ") + owner + " " + std::to_string(-bytes >> 20) + " MiB";
  return text.empty() ? "nothing" : text;
}

}  // namespace zero
