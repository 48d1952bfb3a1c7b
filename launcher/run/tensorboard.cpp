#include "launcher/run/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/processes.h"
#include "launcher/run/progress.h"

namespace zero::launcher {
namespace {

static_assert(std::endian::native == std::endian::little, "as records are");

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// --- fields of protocol buffers: a number, then what its type says

enum class Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint64_t field, Wire wire) {
  return varint(field << 3 | static_cast<uint64_t>(wire));
}

std::string number_field(uint64_t field, int64_t value) {
  return key(field, Wire::kVarint) + varint(static_cast<uint64_t>(value));
}

std::string bytes_field(uint64_t field, const std::string& bytes) {
  return key(field, Wire::kBytes) + varint(bytes.size()) + bytes;
}

// --- event.proto and summary.proto of TensorFlow

std::string event(int64_t step) {
  return key(1, Wire::kFixed64) + bytes_of(wall_seconds()) + number_field(2, step);
}

std::string version_event() { return event(0) + bytes_field(3, "brain.Event:2"); }

// Takes back what files before this one tell of the step and of those behind it.
std::string start_event(int64_t step) {
  constexpr int64_t kStart = 1;
  return event(step) + bytes_field(7, number_field(1, kStart));
}

std::string scalar(const std::string& tag, double value) {
  return bytes_field(1, bytes_field(1, tag) + key(2, Wire::kFixed32) +
                            bytes_of(static_cast<float>(value)));
}

std::string framed(const std::string& data) {
  const auto masked = [](std::string_view bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
  };
  const std::string length = bytes_of(uint64_t{data.size()});
  return length + bytes_of(masked(length)) + data + bytes_of(masked(data));
}

// TensorBoard knows its files by "tfevents", and reads them in the order of their names.
std::string new_path(const std::string& folder) {
  std::error_code ignored;  // the first record tells
  std::filesystem::create_directory(folder, ignored);
  return fmt::format("{}/events.out.tfevents.{:017.6f}.{}.{}", folder, wall_seconds(),
                     host_name(), getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> all{};
    for (uint32_t i = 0; i < all.size(); ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = (value >> 1) ^ (0x82f63b78u & (0u - (value & 1)));
      all[i] = value;
    }
    return all;
  }();
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

TensorboardFile::TensorboardFile(const std::string& folder, int64_t first_step)
    : file_(new_path(folder), "") {
  file_.append(framed(version_event()) + framed(start_event(first_step)));
}

void TensorboardFile::write(int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += scalar(tag, value);
  file_.append(framed(event(step) + bytes_field(5, summary)));
}

}  // namespace zero::launcher
